"""The NAS-Bench-201 space at a given size."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, get_args

import torch
from torch import Tensor, nn

from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.kinds import Kind, Rule
from smallgroup.spaces.nas_bench_201.cell import KIND, OPERATIONS, Cell, Derivation, every_cell
from smallgroup.spaces.nas_bench_201.supernet import NasBench201Supernet
from smallgroup.spaces.space import EdgeBuilder, Masks, checked_scores


@dataclass(frozen=True)
class NasBench201Space:
    """One cell of six edges, five operations per edge; the accuracy of all 15,625 cells is known.

    The benchmark has 16 channels and 5 cells per stage; short searches use less.
    """

    channels: int = 16
    cells_per_stage: int = 5
    images: ImageSpec = field(default_factory=ImageSpec)
    derivation: Derivation = "without-none"

    name: ClassVar[str] = "nas-bench-201"
    kinds: ClassVar[Mapping[str, Kind]] = {"cell": KIND}

    def __post_init__(self) -> None:
        check_counts(channels=self.channels, cells_per_stage=self.cells_per_stage)
        check_counts(image_size=self.images.size, at_least=4)
        check_choice("derivation", self.derivation, get_args(Derivation))

    def supernet(self, build_edge: EdgeBuilder, masks: Masks) -> nn.Module:
        """Build the supernet, on the meta device."""
        with torch.device("meta"):
            return NasBench201Supernet(
                self.kinds["cell"],
                channels=self.channels,
                cells_per_stage=self.cells_per_stage,
                images=self.images,
                build_edge=build_edge,
                masks=masks,
            )

    def derive(self, scores: Mapping[str, Tensor], rule: Rule) -> Cell:
        """Return the cell with the best operation on every edge, without operations that cannot influence its output.

        `none` is chosen only where the method's rule does so (`every-edge`; with a threshold, where no operation
        reaches it), under the benchmark's habit, or where it is all that is left of an edge. If the output would not
        depend on the input, the connected cell with the highest sum of scores takes its place, and a threshold is not
        applied: a constant is no network.
        """
        rows = checked_scores(self.kinds, scores)["cell"]
        if self.derivation == "without-none" and rule.name != "every-edge":
            rows = [_without_none(row) for row in rows]
        best = Cell(tuple(_best(row) for row in rows))
        if not best.connected:
            best = _best_connected(rows)
        if rule.name == "threshold":
            kept = tuple(
                op if max(row) >= rule.threshold else "none" for op, row in zip(best.operations, rows, strict=True)
            )
            best = Cell(kept) if Cell(kept).connected else best
        return best.pruned()

    def chosen(self, genotype: Cell) -> dict[str, Tensor]:
        """Return one for the operation of every edge, zero for the rest."""
        rows = [[float(name == chosen) for name in OPERATIONS] for chosen in genotype.operations]
        return {"cell": torch.tensor(rows)}


def _without_none(row: list[float]) -> list[float]:
    """Return the scores of an edge with `none` removed, unless everything else has been removed."""
    none = OPERATIONS.index("none")
    others = [-math.inf if column == none else score for column, score in enumerate(row)]
    return others if max(others) > -math.inf else row


def _best_connected(rows: list[list[float]]) -> Cell:
    """Return the cell with the highest sum of scores in which the output depends on the input."""
    scores = [dict(zip(OPERATIONS, row, strict=True)) for row in rows]

    def total(cell: Cell) -> float:
        return sum(own[operation] for own, operation in zip(scores, cell.operations, strict=True))

    return max((cell for cell in every_cell() if cell.connected), key=total)


def _best(row: list[float]) -> str:
    return OPERATIONS[row.index(max(row))]
