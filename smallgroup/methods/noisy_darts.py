"""NoisyDARTS: Chu, Zhang and Li, Noisy Differentiable Architecture Search, BMVC 2021 (arXiv:2005.03566)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.method import Method
from smallgroup.methods.operations import SKIP
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_number


@dataclass
class NoisyDarts(Method):
    """DARTS with Gaussian noise on the output of skip connections, in proportion to the deviation of that output.

    y + N(mean, (scale std(y))^2) in all phases but evaluation. std(y) is a constant: the noise has no gradient.
    """

    name: ClassVar[str] = "noisy-darts"
    removed: ClassVar[frozenset[str]] = frozenset({"none"})
    transformed: ClassVar[frozenset[str] | None] = frozenset({SKIP})

    scale: float = 0.2
    mean: float = 0.0
    drop_path: float = 0.0
    """Probability with which an image's skip output is dropped; the method's code has an undocumented 0.3."""

    def __post_init__(self) -> None:
        check_number("scale", self.scale)
        check_number("mean", self.mean)
        if not 0 <= self.drop_path < 1:
            raise ValueError(f"drop_path must be at least 0 and below 1, but got {self.drop_path}")

    def transform(
        self,
        operation: str,  # noqa: ARG002
        output: Tensor,
        generator: torch.Generator,
        phase: Phase | None,
    ) -> Tensor:
        """The noise of a pass is that of its first call in a step, which every probe replays."""
        if phase is None:
            return output
        deviation = self.recall(generator, lambda: output.detach().std())
        noise = self.mean + self.scale * deviation * torch.randn(output.shape, generator=generator).to(output)
        kept = torch.rand(len(output), 1, 1, 1, generator=generator) >= self.drop_path
        return (output + noise) * (kept.to(output) / (1 - self.drop_path))
