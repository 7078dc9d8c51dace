"""SDARTS-RS: Chen and Hsieh, Stabilizing Search by Perturbation-based Regularization, ICML 2020 (arXiv:2002.05283)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.decisions import Progress
from smallgroup.methods.method import Architecture, Method, Noise
from smallgroup.methods.sampling import TRAINING, one_hot
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_number


@dataclass
class SdartsRs(Method):
    """Weights are trained under random perturbations of the mixing weights, which grow from epoch to epoch.

    w = P(softmax(alpha) + delta), delta uniform in [-epsilon, epsilon], in the steps of V and W; P clips to [0, 1] and
    divides by the sum. Labels and validation have no perturbation.
    """

    name: ClassVar[str] = "sdarts-rs"

    first_epsilon: float = 0.03
    """Largest perturbation of a mixing weight in the first epoch."""
    last_epsilon: float = 0.3
    """Largest perturbation in the last epoch."""

    def __post_init__(self) -> None:
        check_number("first_epsilon", self.first_epsilon)
        check_number("last_epsilon", self.last_epsilon)

    @property
    def epsilon(self) -> float:
        """Return the radius of the perturbation in the current epoch."""
        return float(self.state.get("epsilon", self.first_epsilon))

    def schedule(self, progress: Progress) -> None:
        """Perturb more from epoch to epoch."""
        self.state["epsilon"] = torch.tensor(
            progress.between(self.first_epsilon, self.last_epsilon), dtype=torch.float64
        )

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:
        """Draw delta in the phases that train weights."""
        if phase not in TRAINING:
            return {}
        return {
            kind: self.epsilon * (2 * torch.rand(alpha.shape, generator=generator) - 1).to(alpha)
            for kind, alpha in self.logits(architecture).items()
        }

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Return the softmax, perturbed and projected; a row that is cut off to zero has 1 where it was largest."""
        w = alpha.softmax(dim=1)
        if noise is None:
            return w
        moved = (w + torch.where(alpha > -torch.inf, noise, 0.0)).clamp(0, 1)
        total = moved.sum(dim=1, keepdim=True)
        return torch.where(total > 0, moved / torch.where(total > 0, total, 1.0), one_hot(w.argmax(dim=1), w))
