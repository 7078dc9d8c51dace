"""NoisyDARTS: Chu, Zhang and Li, Noisy Differentiable Architecture Search, BMVC 2021 (arXiv:2005.03566)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.method import Method
from smallgroup.methods.operations import SKIP
from smallgroup.methods.sampling import dropped
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_number
from smallgroup.runtime.fields import draw_normal


@dataclass
class NoisyDarts(Method):
    """DARTS with Gaussian noise on the output of skip connections, in proportion to the deviation of that output.

    y + N(mean, (scale std(y))^2) in all phases but evaluation. std(y) is a constant: the noise has no gradient.
    """

    name: ClassVar[str] = "noisy-darts"
    removed: ClassVar[frozenset[str]] = frozenset({"none"})
    transformed: ClassVar[frozenset[str] | None] = frozenset({SKIP})

    scale: float = 0.2
    """Deviation of the noise, as a share of that of the skip connection's output."""
    mean: float = 0.0
    """Mean of the noise."""
    drop_path: float = 0.0
    """Probability with which an image's skip output is dropped; the method's code has an undocumented 0.3."""

    def __post_init__(self) -> None:
        check_number("scale", self.scale)
        check_number("mean", self.mean)
        if not 0 <= self.drop_path < 1:
            raise ValueError(f"drop_path must be at least 0 and below 1, but got {self.drop_path}")

    def transform(self, operation: str, output: Tensor, generator: torch.Generator, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Add noise to an output. The noise is that of the first call in a step, which every probe replays."""
        if phase is None:
            return output
        deviation = self.recall(generator, lambda: output.detach().std())
        drawn = draw_normal(output.shape, generator, output.device)
        noisy = output + (self.mean + self.scale * deviation * drawn.to(output))
        return dropped(noisy, self.drop_path, (len(output), 1, 1, 1), generator)
