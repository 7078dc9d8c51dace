"""SNAS: Xie, Zheng, Liu and Lin, Stochastic Neural Architecture Search, ICLR 2019 (arXiv:1812.09926)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from smallgroup.methods.expected_cost import expected_cost
from smallgroup.methods.method import Architecture, ArchitectureOptimizer
from smallgroup.methods.sampling import CooledDraws, around_one
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_number
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.space import Space


@dataclass
class Snas(CooledDraws):
    """A soft Gumbel sample per edge, ever sharper. Published as single-level; here alpha follows validation data.

    w = softmax((alpha + G) / tau), tau falling linearly; the gradient is that of the sample. Every edge stays.
    """

    name: ClassVar[str] = "snas"
    rule: ClassVar[Rule] = Rule("every-edge")
    level: ClassVar[Literal["bilevel", "single"]] = "single"
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer(clip=10.0)
    # The log has the slope of ProxylessNAS' penalty where the cost is that of equal probabilities.
    weight_under_limits: ClassVar[float] = 0.1

    first_temperature: float = 1.0
    """Temperature tau in the first epoch."""
    last_temperature: float = 0.03
    """Temperature tau in the last epoch."""
    cost_weight: float = 0.0
    """Weight of the log of the expected multiply-adds in the loss."""

    def __post_init__(self) -> None:
        check_number("first_temperature", self.first_temperature, positive=True)
        check_number("last_temperature", self.last_temperature, positive=True)
        check_number("cost_weight", self.cost_weight)

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:
        """Draw normal numbers of mean 1 and deviation 0.01."""
        return around_one(super().initial(space, generator))

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Relax to a sample of the concrete distribution."""
        assert noise is not None  # `draw` makes it
        return ((alpha + noise) / self.temperature).softmax(dim=1)

    def penalty(self, architecture: Architecture, costs: Callable[[], Mapping[str, Tensor]]) -> Tensor | None:
        """Return the weighted log of the expected cost."""
        if self.cost_weight == 0:
            return None
        return self.cost_weight * expected_cost(self.scores(architecture), costs()).log()
