"""Genotypes of the spaces robust-s1 to robust-s4: pairs of cells of the DARTS space with fewer operations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, DartsGenotype
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.robust import names


@dataclass(frozen=True)
class RobustGenotype(DartsGenotype):
    """The normal cell and the reduction cell; every edge has an operation that it chooses from."""

    kinds: ClassVar[Mapping[str, Kind]]

    def __post_init__(self) -> None:
        for name, cell in (("normal", self.normal), ("reduce", self.reduce)):
            kind = self.kinds[name]
            cell.check(name, [operation for operation in kind.operations if operation != "none"])
            self._check_edges(kind, cell)

    def _check_edges(self, kind: Kind, cell: CellGenotype) -> None:
        if len(cell.nodes) != len({node for _, node in kind.edges}):
            raise ValueError(f"the {kind.name} cell of {self.space} must have 4 nodes, but it has {len(cell.nodes)}")
        for node, edges in enumerate(cell.nodes, start=INPUTS):
            for operation, source in edges:
                offered = kind.offered(kind.edges.index((source, node)))
                if operation not in offered:
                    raise ValueError(
                        f"the edge from {source} to {node} of the {kind.name} cell of {self.space} must be "
                        f"{' or '.join(offered)}, but it is {operation}"
                    )


class GenotypeS1(RobustGenotype):
    """A genotype of the space robust-s1, which has its own operations per edge."""

    space: ClassVar[str] = "robust-s1"
    kinds: ClassVar[Mapping[str, Kind]] = names.S1


class GenotypeS2(RobustGenotype):
    """A genotype of robust-s2: separable convolutions and skips."""

    space: ClassVar[str] = "robust-s2"
    kinds: ClassVar[Mapping[str, Kind]] = names.S2


class GenotypeS3(RobustGenotype):
    """A genotype of robust-s3: 3x3 separable convolution, skip or none."""

    space: ClassVar[str] = "robust-s3"
    kinds: ClassVar[Mapping[str, Kind]] = names.S3


class GenotypeS4(RobustGenotype):
    """A genotype of robust-s4: 3x3 separable convolution or noise."""

    space: ClassVar[str] = "robust-s4"
    kinds: ClassVar[Mapping[str, Kind]] = names.S4
