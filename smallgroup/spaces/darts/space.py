"""The DARTS space at a given size."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts.derive import derive_cell
from smallgroup.spaces.darts.genotype import INPUTS, DartsGenotype
from smallgroup.spaces.darts.names import KINDS, STEMS
from smallgroup.spaces.darts.skeleton import reduction_cells
from smallgroup.spaces.darts.supernet import DartsSupernet
from smallgroup.spaces.kinds import Kind, Rule
from smallgroup.spaces.space import EdgeBuilder, Masks, checked_scores

_SHRINK = {"cifar": 4, "small": 4, "imagenet": 32}


@dataclass(frozen=True)
class DartsSpace:
    """A normal and a reduction cell of 14 edges, eight operations per edge.

    The paper searches at 16 channels and 8 cells.
    """

    channels: int = 16
    cells: int = 8
    stem: str = "cifar"
    images: ImageSpec = field(default_factory=ImageSpec)

    name: ClassVar[str] = "darts"
    kinds: ClassVar[Mapping[str, Kind]] = KINDS
    genotype: ClassVar[type[DartsGenotype]] = DartsGenotype
    """What is derived; a part of the space has genotypes of its own."""

    def __post_init__(self) -> None:
        check_choice("stem", self.stem, STEMS)
        check_counts(channels=self.channels)
        check_counts(cells=self.cells, at_least=3)
        check_counts(image_size=self.images.size, at_least=_SHRINK[self.stem])

    @property
    def reductions(self) -> frozenset[int]:
        """Return the numbers of the cells that halve the size."""
        return reduction_cells(self.cells)

    def supernet(self, build_edge: EdgeBuilder, masks: Masks) -> nn.Module:
        """Build the supernet, on the meta device."""
        with torch.device("meta"):
            return DartsSupernet(
                self.kinds,
                channels=self.channels,
                cells=self.cells,
                stem=self.stem,
                images=self.images,
                build_edge=build_edge,
                masks=masks,
            )

    def derive(self, scores: Mapping[str, Tensor], rule: Rule) -> DartsGenotype:
        """Derive the pair of cells from the scores."""
        tables = checked_scores(self.kinds, scores)
        return self.genotype(*(derive_cell(self.kinds[kind], tables[kind], rule) for kind in ("normal", "reduce")))

    def chosen(self, genotype: DartsGenotype) -> dict[str, Tensor]:
        """Return one for every edge and operation of the genotype, zero for the rest."""
        result = {}
        for name, cell in (("normal", genotype.normal), ("reduce", genotype.reduce)):
            kind = self.kinds[name]
            result[name] = torch.zeros(kind.shape)
            for node, edges in enumerate(cell.nodes, start=INPUTS):
                for operation, source in edges:
                    result[name][kind.edges.index((source, node)), kind.operations.index(operation)] = 1.0
        return result
