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
    """Title of this kind of cell in drawings."""
    choices: tuple[tuple[str, ...], ...] | None = None
    """What each edge chooses from, where that is less than `operations`; None: every edge chooses from all."""

    def __post_init__(self) -> None:
        if self.choices is None:
            return
        if len(self.choices) != len(self.edges) or not all(self.choices):
            raise ValueError(f"every edge of {self.name} must have something to choose from, but not all have")
        for name in (name for offered in self.choices for name in offered):
            if name not in self.operations:
                raise ValueError(f"an edge of {self.name} chooses from {', '.join(self.operations)}, but not {name}")

    @property
    def shape(self) -> tuple[int, int]:
        """Return [edges, operations], the shape of an architecture tensor."""
        return len(self.edges), len(self.operations)

    def offered(self, edge: int) -> tuple[str, ...]:
        """Return the operations that an edge chooses from."""
        return self.operations if self.choices is None else self.choices[edge]

    @property
    def offers(self) -> list[list[bool]]:
        """Return [edges, operations]: whether an edge may choose an operation."""
        return [[name in self.offered(edge) for name in self.operations] for edge in range(len(self.edges))]


@dataclass(frozen=True)
class Rule:
    """A rule that derives a cell from the scores of its operations.

    top2: the two strongest edges of each node, with their best operation (DARTS).
    pairs: the two strongest pairs of edge and operation of each node, be they on one edge (GDAS).
    threshold: as top2, but only operations that score at least `threshold` (FairDARTS).
    every-edge: every edge with its best operation, `none` among them (SNAS).

    A space whose nodes keep all their edges has only two: the best operation of every edge, with a threshold or
    without.
    """

    name: Literal["top2", "pairs", "threshold", "every-edge"] = "top2"
    threshold: float = 0.85
