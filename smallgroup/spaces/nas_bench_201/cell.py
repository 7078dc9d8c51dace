"""A cell of NAS-Bench-201: its notation, and what makes two cells the same function."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Literal

from smallgroup.spaces.kinds import Kind

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
EDGES = ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2))
"""(node, source), in the order of the notation; node 0 is the input, node 3 the output, a node sums its edges."""
KIND = Kind("cell", tuple((source, node) for node, source in EDGES), OPERATIONS)
Derivation = Literal["without-none", "benchmark"]
"""How a cell is read off its scores: DARTS' rule, which never chooses `none`, or the habit of the benchmark's authors,
who take the best of all five operations."""

_EXAMPLE = "|nor_conv_3x3~0|+|nor_conv_3x3~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_3x3~2|"


@dataclass(frozen=True)
class Cell:
    """An operation for each of the six edges, in the order of `EDGES`."""

    operations: tuple[str, ...]

    space: ClassVar[str] = "nas-bench-201"

    def __post_init__(self) -> None:
        if len(self.operations) != len(EDGES):
            raise ValueError(f"a cell has {len(EDGES)} edges, but got {len(self.operations)} operations")
        for (node, source), operation in zip(EDGES, self.operations, strict=True):
            if operation not in OPERATIONS:
                raise ValueError(
                    f"the operation from node {source} to node {node} must be one of {', '.join(OPERATIONS)}, "
                    f"but got {operation[:60]!r}"
                )

    @staticmethod
    def parse(text: str) -> "Cell":
        """Read a cell in the notation of the benchmark, `|op~0|+|op~0|op~1|+|op~0|op~1|op~2|`."""
        nodes = text.strip().split("+")
        if len(nodes) != 3:
            raise ValueError(f"a cell is written as three nodes joined by +, like {_EXAMPLE}, but got {text[:120]!r}")
        operations = []
        for node, part in enumerate(nodes, start=1):
            found = re.fullmatch(r"\|(?:[a-z0-9_]+~[0-9]\|)+", part)
            edges = re.findall(r"([a-z0-9_]+)~([0-9])", part) if found else []
            if [int(source) for _, source in edges] != list(range(node)):
                raise ValueError(
                    f"node {node} must be written as one operation per source 0 to {node - 1}, like "
                    f"{_EXAMPLE.split('+')[node - 1]}, but got {part[:120]!r}"
                )
            operations += [operation for operation, _ in edges]
        return Cell(tuple(operations))

    def __str__(self) -> str:
        chosen = dict(zip(EDGES, self.operations, strict=True))
        nodes = ["".join(f"{chosen[node, source]}~{source}|" for source in range(node)) for node in (1, 2, 3)]
        return "+".join("|" + node for node in nodes)

    def form(self) -> str:
        """Return a text that is the same for cells the benchmark counts as one: 6,466 distinct ones.

        A skip passes on what its source computes, `none` and whatever is applied to zero is zero, and the terms of a
        sum have no order. The count is that of the benchmark's own texts, whose terms are sorted as text, a passed-on
        sum as one term; merging such sums and leaving out zeros would leave 4,930.
        """
        texts = ["0"]
        chosen = dict(zip(EDGES, self.operations, strict=True))
        for node in (1, 2, 3):
            texts.append("+".join(sorted(_through(chosen[node, source], texts[source]) for source in range(node))))
        return texts[-1]

    @property
    def connected(self) -> bool:
        """Whether anything gets from the input to the output."""
        return 3 in self._reached

    @property
    def dead(self) -> tuple[int, ...]:
        """The edges, as indices into `EDGES`, whose operation cannot influence the output or gets no input."""
        reached, used = self._reached, {3}
        for (node, source), operation in reversed(list(zip(EDGES, self.operations, strict=True))):
            if node in used and operation != "none":
                used.add(source)
        return tuple(
            edge
            for edge, ((node, source), operation) in enumerate(zip(EDGES, self.operations, strict=True))
            if operation != "none" and (source not in reached or node not in used)
        )

    def pruned(self) -> "Cell":
        """Return the same function of the input without dead operations.

        Its `form` may differ: the benchmark's texts keep zeros as terms of a sum.
        """
        dead = self.dead
        return Cell(tuple("none" if edge in dead else name for edge, name in enumerate(self.operations)))

    @property
    def _reached(self) -> set[int]:
        """The nodes that depend on the input."""
        reached = {0}
        for (node, source), operation in zip(EDGES, self.operations, strict=True):
            if source in reached and operation != "none":
                reached.add(node)
        return reached

    @property
    def skips(self) -> int:
        """How many edges are skip connections."""
        return self.operations.count("skip_connect")


def every_cell() -> Iterator[Cell]:
    """Return all 15,625 cells, in a fixed order."""
    return (Cell(operations) for operations in product(OPERATIONS, repeat=len(EDGES)))


def _through(operation: str, text: str) -> str:
    """Return the string form of a node: the input is "0", zero is "#", an operation follows what it is applied to."""
    if operation == "none" or text == "#":
        return "#"
    return text if operation == "skip_connect" else f"({text})@{operation}"
