"""The spaces robust-s1 to robust-s4 as the registry has them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import SpaceConfig
from smallgroup.spaces.darts import plain
from smallgroup.spaces.darts.definition import DartsDefinition
from smallgroup.spaces.darts.design import stem_for
from smallgroup.spaces.darts.genotype import DartsGenotype
from smallgroup.spaces.definition import Published
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.robust import names
from smallgroup.spaces.robust.genotype import GenotypeS1, GenotypeS2, GenotypeS3, GenotypeS4

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from smallgroup.spaces.darts.space import DartsSpace


class Robust(DartsDefinition):
    """The common part of the four spaces: cells, networks and files of the DARTS space, and genotypes of their own."""

    strides: ClassVar[tuple[int, ...]] = ()  # all of its operations are those of the DARTS space

    def space(self, config: SpaceConfig, images: ImageSpec) -> "DartsSpace":
        """Return the space at a size, for such images."""
        from smallgroup.spaces.robust.space import BY_NAME  # noqa: PLC0415 -- it loads torch

        stem = stem_for(images.size) if config.stem == "auto" else config.stem
        return BY_NAME[self.name](channels=config.channels, cells=config.cells, stem=stem, images=images)

    def from_plain(self, data: object) -> DartsGenotype:
        """Read the form of `to_plain`, or the flat one of papers."""
        return plain.from_plain(data, self.genotype)

    def reads(self, text: str) -> bool:  # noqa: ARG002
        """Return False: texts in the notation of the papers do not say that they are of a part of the DARTS space."""
        return False

    def reads_plain(self, data: Mapping[str, object]) -> bool:  # noqa: ARG002
        """Return False: objects without a schema do not say it either."""
        return False

    def published(self) -> Mapping[str, Published]:
        """Return nothing: published cells are those of the DARTS space."""
        return {}

    def canary(self) -> "Mapping[str, Callable[[torch.Generator], list[Tensor]]]":
        """Return nothing that the DARTS space does not have."""
        return {}


class RobustS1(Robust):
    """The DARTS space with two operations per edge, which differ from edge to edge."""

    name: ClassVar[str] = "robust-s1"
    kinds: ClassVar[Mapping[str, Kind]] = names.S1
    genotype: ClassVar[type[DartsGenotype]] = GenotypeS1


class RobustS2(Robust):
    """The DARTS space with skip connections and 3x3 separable convolutions alone."""

    name: ClassVar[str] = "robust-s2"
    kinds: ClassVar[Mapping[str, Kind]] = names.S2
    genotype: ClassVar[type[DartsGenotype]] = GenotypeS2


class RobustS3(Robust):
    """The DARTS space with skip connections, 3x3 separable convolutions and `none`."""

    name: ClassVar[str] = "robust-s3"
    kinds: ClassVar[Mapping[str, Kind]] = names.S3
    genotype: ClassVar[type[DartsGenotype]] = GenotypeS3


class RobustS4(Robust):
    """The DARTS space with 3x3 separable convolutions and noise."""

    name: ClassVar[str] = "robust-s4"
    kinds: ClassVar[Mapping[str, Kind]] = names.S4
    genotype: ClassVar[type[DartsGenotype]] = GenotypeS4
