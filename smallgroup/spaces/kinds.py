"""Kinds of cells, and the rules by which a cell is read off scores: what can be said without torch."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Kind:
    """A kind of cell: its edges as (source, node), and the operations that each of them chooses from."""

    name: str
    edges: tuple[tuple[int, int], ...]
    operations: tuple[str, ...]
    title: str = "cell"
    """What drawings call it."""

    @property
    def shape(self) -> tuple[int, int]:
        """[edges, operations]: the shape of an architecture tensor."""
        return len(self.edges), len(self.operations)


@dataclass(frozen=True)
class Rule:
    """How a cell is read off the scores of its operations.

    top2: the two strongest edges of each node, with their best operation (DARTS).
    pairs: the two strongest pairs of edge and operation of each node, be they on one edge (GDAS).
    threshold: as top2, but only operations that score at least `threshold` (FairDARTS).
    every-edge: every edge with its best operation, `none` among them (SNAS).

    A space whose nodes keep all their edges has only two: the best operation of every edge, with a threshold or
    without.
    """

    name: Literal["top2", "pairs", "threshold", "every-edge"] = "top2"
    threshold: float = 0.85
