"""P-DARTS: Chen et al., Progressive Differentiable Architecture Search, ICCV 2019 (arXiv:1904.12760)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Progress, Rebuild
from smallgroup.methods.method import ArchitectureOptimizer, Method
from smallgroup.methods.sampling import dropped
from smallgroup.runtime import Phase
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.checks import check_counts
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.space import EdgeParts, Space

SKIP = "skip_connect"
_FEWEST = 3
"""Operations that an edge keeps at least: with `none` and a skip connection one that is neither."""


@dataclass
class PDarts(Method):
    """Three stages, from shallow networks of many operations to deep ones of few, with dropout behind skip connections.

    Every stage begins with new weights and a new architecture; what carries over is which operations are left.
    """

    name: ClassVar[str] = "p-darts"
    needs: ClassVar[str] = "cells"
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer(lr=6e-4, clip=5.0)
    warmup: ClassVar[float] = 0.4
    transformed: ClassVar[frozenset[str] | None] = frozenset({SKIP})

    added: tuple[int, ...] = (6, 12)
    """Cells by which the network of a later stage is deeper than the first."""
    kept: tuple[int, ...] = (5, 3)
    """Operations of an edge that are left in a later stage."""
    dropout: tuple[float, ...] = (0.0, 0.4, 0.7)
    """Rate of dropout behind skip connections at the start of each stage."""
    skips: int = 2
    """Most skip connections of the derived normal cell."""

    def __post_init__(self) -> None:
        check_counts(stages=self.stages)
        if len(self.kept) != len(self.added) or len(self.dropout) != self.stages:
            found = f"{len(self.added)} in added, {len(self.kept)} in kept and {len(self.dropout)} in dropout"
            raise ValueError(f"p-darts takes a number per later stage, and one more of dropout, but got {found}")
        if any(count < _FEWEST for count in self.kept) or list(self.kept) != sorted(self.kept, reverse=True):
            raise ValueError(
                f"kept must be at least {_FEWEST} operations per edge and never more than before, but got "
                f"{list(self.kept)}"
            )
        if not all(0 <= count <= MOST["cells"] for count in (*self.added, self.skips)):
            raise ValueError(
                f"added and skips must be 0 to {MOST['cells']}, but got {list(self.added)} and {self.skips}"
            )
        if not all(0 <= rate < 1 for rate in self.dropout):
            raise ValueError(f"dropout must be at least 0 and below 1, but got {list(self.dropout)}")

    @property
    def most_skips(self) -> int:
        """Return how many skips a cell may have, as the option `most_skips` says."""
        return self.skips

    @property
    def stages(self) -> int:
        """Return one more than the option `added` has entries: a first stage, and those that add cells."""
        return len(self.added) + 1

    def start(self, space: Space) -> None:
        """Start with the cells of the space, whose number must be free."""
        cells = getattr(space, "cells", None)
        if cells is None:
            raise ValueError(
                "p-darts makes the network deeper from stage to stage and limits the skip connections of its normal "
                f"cell, but {space.name} has a network of given depth with one kind of cell"
            )
        super().start(space)
        self.state["cells"] = torch.tensor(int(cells))

    def schedule(self, progress: Progress) -> None:
        """Set dropout to p (E - e - 1) / E while A is frozen, then p exp(-5 (e - f) / E) from epoch f on, its first."""
        rate, epoch, epochs = self.dropout[progress.stage], progress.epoch, progress.epochs
        if epoch < progress.frozen:
            rate *= (epochs - epoch - 1) / epochs
        else:
            # The published decay: at the end of a stage e^-5 or more of the rate is left.
            rate *= math.exp(-5 * (epoch - progress.frozen) / epochs)
        self.state["dropout"] = torch.tensor(rate, dtype=torch.float64)

    def transform(self, operation: str, output: Tensor, generator: torch.Generator, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Apply dropout behind skip connections, except in evaluation."""
        rate = float(self.state.get("dropout", 0.0))
        return output if phase is None else dropped(output, rate, output.shape, generator)

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        """Build an edge that drops out only skip connections that change nothing, not those that halve the size."""
        return MixedEdge(parts) if parts.stride == 1 else _UndisturbedEdge(parts)

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        """Remove the weakest operations at the end of a stage, `none` like any other, and deepen the network."""
        progress = epoch.progress
        if not progress.last_epoch or progress.stage + 1 >= self.stages:
            return Continue()
        for kind, scores in self.scores(epoch.architecture).items():
            self.keep(kind, self.mask(kind) & strongest(scores, self.kept[progress.stage]))
        return Rebuild({"cells": int(self.state["cells"]) + self.added[progress.stage]})

    def derive_from(self, space: Space, scores: Mapping[str, Tensor]) -> Any:  # noqa: ANN401
        """Keep the two strongest edges of each node; drop the weakest skip connections while there are too many."""
        scores = {kind: table.clone() for kind, table in scores.items()}
        normal = next(iter(space.kinds))
        if SKIP not in space.kinds[normal].operations:
            return space.derive(scores, self.rule)
        column = space.kinds[normal].operations.index(SKIP)
        while True:
            genotype = space.derive(scores, self.rule)
            held = scores[normal][:, column].masked_fill(space.chosen(genotype)[normal][:, column] == 0, torch.inf)
            if int(held.isfinite().sum()) <= self.skips:
                return genotype
            scores[normal][held.argmin(), column] = -torch.inf  # of equal ones the first


def strongest(scores: Tensor, count: int) -> Tensor:
    """Return a mask [edges, operations]: True for the so many highest scores of each edge; of equal ones the first."""
    removed = scores.sort(dim=1, stable=True).indices[:, : max(0, scores.shape[1] - count)]
    return torch.ones_like(scores, dtype=torch.bool).scatter(1, removed, False)


class _UndisturbedEdge(MixedEdge):
    """A mixed edge whose outputs stay as they are."""

    transforms: ClassVar[bool] = False
