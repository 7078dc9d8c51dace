"""DSNAS: Hu et al., Direct Neural Architecture Search without Parameter Retraining, CVPR 2020 (arXiv:2002.09128)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from smallgroup.methods.decisions import Continue, Decision, EpochEnd
from smallgroup.methods.expected_cost import expected_cost
from smallgroup.methods.method import Architecture, ArchitectureOptimizer
from smallgroup.methods.sampling import GumbelDraws, around_one, drawn, one_hot
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_number
from smallgroup.spaces.space import Evaluated, Space


@dataclass
class Dsnas(GumbelDraws):
    """One drawn operation per edge runs. Published as single-level; here alpha follows validation data.

    w = z (1 + log p - stop(log p)), z one-hot by p = softmax(alpha): log-probability times gradient at the gate.
    An edge whose two best probabilities differ by `margin` is fixed to its best operation at the end of an epoch.
    """

    name: ClassVar[str] = "dsnas"
    evaluate: ClassVar[Evaluated] = "active"
    level: ClassVar[Literal["bilevel", "single"]] = "single"
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer(lr=1e-3, weight_decay=0.0)

    margin: float = 0.3
    """Difference of an edge's two best probabilities at which the edge is fixed."""
    cost_weight: float = 0.0
    """Weight of the expected multiply-adds above `cost_limit` in the loss; published: 1e-6."""
    cost_limit: float = 0.0
    """Expected multiply-adds without a penalty; published for ImageNet: 2.9e8."""

    def __post_init__(self) -> None:
        check_number("margin", self.margin, positive=True)
        check_number("cost_weight", self.cost_weight)
        check_number("cost_limit", self.cost_limit)

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:
        """Draw normal numbers of mean 1 and deviation 0.01."""
        return around_one(super().initial(space, generator))

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Return one at the drawn operation, with the gradient of its log-probability."""
        assert noise is not None  # `draw` makes it
        chosen = drawn(alpha, noise)
        log_p = alpha.log_softmax(dim=1).gather(1, chosen[:, None])
        return one_hot(chosen, alpha) * (1 + log_p - log_p.detach())

    def penalty(self, architecture: Architecture, costs: Callable[[], Mapping[str, Tensor]]) -> Tensor | None:
        """Return the expected cost above the limit; as published, if the drawn network exceeds the limit."""
        if self.cost_weight == 0:
            return None
        return self.cost_weight * (expected_cost(self.scores(architecture), costs()) - self.cost_limit).relu()

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        """Fix the edges that are decided."""
        for kind, p in self.scores(epoch.architecture).items():
            best = p.clamp_min(0).topk(2, dim=1)
            decided = best.values[:, 0] - best.values[:, 1] >= self.margin
            only = one_hot(best.indices[:, 0], p).bool()
            self.keep(kind, self.mask(kind) & (only | ~decided[:, None]))
        return Continue()
