"""What a genotype is: the choice that a search makes, and what a network is built from."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol


class Genotype(Hashable, Protocol):
    """A genotype of any space, such as a frozen dataclass. Equal genotypes are the same choice."""

    space: ClassVar[str]
    """Name of the space it belongs to."""

    @property
    def skips(self) -> int:
        """Return how many edges are skip connections: many of them are a sign of collapse."""
        ...


class Edge(NamedTuple):
    """An operation on the output of node `source`."""

    operation: str
    source: int


@dataclass(frozen=True)
class CellGraph:
    """One kind of cell of a genotype, as drawings show it."""

    title: str
    inputs: tuple[str, ...]
    """What nodes 0, 1, ... are that come from outside."""
    nodes: tuple[tuple[Edge, ...], ...]
    """The edges into each node after the inputs."""
    output: tuple[int, ...]
    """The nodes that are the output."""
