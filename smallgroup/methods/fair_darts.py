"""FairDARTS: Chu et al., Fair DARTS: Eliminating Unfair Advantages, ECCV 2020 (arXiv:1911.12126)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.method import Architecture, ArchitectureOptimizer, Method
from smallgroup.runtime import Phase
from smallgroup.runtime.constants import places_on
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.space import Space


@dataclass
class FairDarts(Method):
    """A sigmoid for every operation, so that operations do not compete; a loss pushes each toward 0 or 1.

    w = sigmoid(alpha), alpha = 0 at the start; penalty -weight mean (w - 1/2)^2 over all operations of all edges.
    """

    name: ClassVar[str] = "fair-darts"
    rule: ClassVar[Rule] = Rule("threshold", 0.85)
    removed: ClassVar[frozenset[str]] = frozenset({"none"})
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer(lr=3e-3, betas=(0.9, 0.999))

    zero_one_weight: float = 10.0
    """Weight of the loss that drives the sigmoids to 0 or 1."""

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:
        """Return zeros, which give every operation a sigmoid of exactly one half."""
        return {name: torch.zeros_like(alpha) for name, alpha in super().initial(space, generator).items()}

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Return the sigmoids, and zero for removed operations."""
        return alpha.sigmoid()

    def penalty(self, architecture: Architecture, costs: Callable[[], Mapping[str, Tensor]]) -> Tensor:  # noqa: ARG002
        """Return the zero-one loss, which pushes each sigmoid toward 0 or 1."""
        logits = self.logits(architecture)
        kept = torch.cat([_chosen(alpha, self.mask(kind)) for kind, alpha in logits.items()])
        return -self.zero_one_weight * ((kept.sigmoid() - 0.5) ** 2).mean()

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return the sigmoids as scores, since operations do not compete."""
        return self.masked({kind: alpha.sigmoid() for kind, alpha in self.logits(architecture).items()})


def _chosen(table: Tensor, mask: Tensor) -> Tensor:
    """Return the entries where a mask is true. The mask is in main memory: counting on a GPU would wait."""
    if table.device.type == "cpu":
        return table[mask]
    return table.reshape(-1).index_select(0, places_on(mask.reshape(-1).nonzero()[:, 0].tolist(), table.device))
