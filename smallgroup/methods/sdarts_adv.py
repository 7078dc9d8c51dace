"""SDARTS-ADV: Chen and Hsieh, Stabilizing Search by Perturbation-based Regularization, ICML 2020 (arXiv:2002.05283)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.method import Architecture, Noise
from smallgroup.methods.sdarts_rs import SdartsRs
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_counts


@dataclass
class SdartsAdv(SdartsRs):
    """SDARTS with the perturbation that raises the training loss, found by projected ascent; otherwise as sdarts-rs.

    From a random start, `ascents` steps of 2 epsilon / ascents along the sign of the gradient; what did not raise the
    loss is left out. The constant delta found so is what all probes of the step replay.
    """

    name: ClassVar[str] = "sdarts-adv"

    ascents: int = 7
    """Steps of ascent in every phase that trains weights; each takes a forward and a backward pass."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(ascents=self.ascents)

    def look(
        self,
        architecture: Architecture,  # noqa: ARG002
        noise: Noise,
        phase: Phase,  # noqa: ARG002
        loss: Callable[[Noise], Tensor],
    ) -> Noise:
        """Return the perturbation under which the loss of the phase is high."""
        epsilon, delta = self.epsilon, dict(noise)
        for _ in range(self.ascents):
            leaves = {kind: d.detach().requires_grad_() for kind, d in delta.items()}
            gradients = torch.autograd.grad(loss(leaves), list(leaves.values()))
            delta = {
                kind: (d + 2 * epsilon / self.ascents * g.sign()).clamp(-epsilon, epsilon)
                for (kind, d), g in zip(delta.items(), gradients, strict=True)
            }
        nothing = {kind: torch.zeros_like(d) for kind, d in delta.items()}
        higher = (loss(delta) > loss(nothing)).detach()
        return {kind: torch.where(higher, d, nothing[kind]) for kind, d in delta.items()}
