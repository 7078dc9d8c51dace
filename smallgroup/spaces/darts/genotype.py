"""A pair of cells of the DARTS space: what a search decides, and what a network is built from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from smallgroup.runtime.bounds import MOST
from smallgroup.spaces.darts.names import INPUTS, KNOWN
from smallgroup.spaces.genotype import Edge

__all__ = ["INPUTS", "CellGenotype", "DartsGenotype", "Edge"]


@dataclass(frozen=True)
class CellGenotype:
    """The incoming edges of each intermediate node (nodes 2, 3, ...), and the nodes whose outputs are concatenated.

    A node may be without edges only if nothing uses it: methods that threshold leave such nodes behind.
    """

    nodes: tuple[tuple[Edge, ...], ...]
    concat: tuple[int, ...]

    def check(self, name: str, known: Sequence[str] = KNOWN) -> None:
        """Refuse a cell that cannot be built, or has operations that are not known, with the reason."""
        cell, end = f"the {name} cell", INPUTS + len(self.nodes)
        if len(self.nodes) not in (4, 5):
            raise ValueError(f"{cell} must have 4 nodes (5 in the NASNet family), but it has {len(self.nodes)}")
        for node, edges in enumerate(self.nodes, start=INPUTS):
            if len(edges) > MOST["edges"]:
                raise ValueError(f"node {node} of {cell} must have at most {MOST['edges']} edges, but has {len(edges)}")
            for operation, source in edges:
                _check_operation(f"node {node} of {cell}", operation, known)
                if not 0 <= source < end:
                    raise ValueError(f"node {node} of {cell} takes its input from node {source}, which is not there")
                if source >= node:
                    raise ValueError(
                        f"{cell} has a cycle: node {node} takes its input from node {source}, not before it"
                    )
                if self._is_empty(source):
                    raise ValueError(f"node {source} of {cell} is empty, but node {node} takes its input from it")
        if not self.concat:
            raise ValueError(f"the output of {cell} must be made of at least one node, but its concat is empty")
        for node in self.concat:
            if not INPUTS <= node < end:
                raise ValueError(f"concat of {cell} must name nodes {INPUTS} to {end - 1}, but it names {node}")
            if self._is_empty(node):
                raise ValueError(f"node {node} of {cell} is empty: it has no input, but is part of the output")
        if len(set(self.concat)) != len(self.concat):
            raise ValueError(f"concat of {cell} must name a node once, but it is {list(self.concat)}")

    def _is_empty(self, node: int) -> bool:
        return node >= INPUTS and not self.nodes[node - INPUTS]

    @property
    def skips(self) -> int:
        """How many edges are skip connections."""
        return sum(edge.operation == "skip_connect" for edges in self.nodes for edge in edges)


@dataclass(frozen=True)
class DartsGenotype:
    """The normal cell and the reduction cell, checked when it is made."""

    normal: CellGenotype
    reduce: CellGenotype

    space: ClassVar[str] = "darts"

    def __post_init__(self) -> None:
        self.normal.check("normal")
        self.reduce.check("reduce")

    @property
    def skips(self) -> int:
        """Skip connections in the normal cell, the ones that tell of a collapse."""
        return self.normal.skips


def _check_operation(place: str, operation: str, known: Sequence[str]) -> None:
    if operation not in known:
        raise ValueError(f"{place} has an unknown operation {operation[:60]!r}; known are {', '.join(known)}")
