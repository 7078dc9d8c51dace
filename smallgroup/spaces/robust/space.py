"""The spaces robust-s1 to robust-s4 at a given size: the DARTS space with fewer operations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from smallgroup.spaces.darts.genotype import DartsGenotype
from smallgroup.spaces.darts.space import DartsSpace
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.robust import names
from smallgroup.spaces.robust.genotype import GenotypeS1, GenotypeS2, GenotypeS3, GenotypeS4


@dataclass(frozen=True)
class RobustS1Space(DartsSpace):
    """Two operations per edge, which differ from edge to edge."""

    name: ClassVar[str] = "robust-s1"
    kinds: ClassVar[Mapping[str, Kind]] = names.S1
    genotype: ClassVar[type[DartsGenotype]] = GenotypeS1


@dataclass(frozen=True)
class RobustS2Space(DartsSpace):
    """Skip connections and 3x3 separable convolutions."""

    name: ClassVar[str] = "robust-s2"
    kinds: ClassVar[Mapping[str, Kind]] = names.S2
    genotype: ClassVar[type[DartsGenotype]] = GenotypeS2


@dataclass(frozen=True)
class RobustS3Space(DartsSpace):
    """Skip connections, 3x3 separable convolutions and `none`."""

    name: ClassVar[str] = "robust-s3"
    kinds: ClassVar[Mapping[str, Kind]] = names.S3
    genotype: ClassVar[type[DartsGenotype]] = GenotypeS3


@dataclass(frozen=True)
class RobustS4Space(DartsSpace):
    """The space of 3x3 separable convolutions and noise."""

    name: ClassVar[str] = "robust-s4"
    kinds: ClassVar[Mapping[str, Kind]] = names.S4
    genotype: ClassVar[type[DartsGenotype]] = GenotypeS4


BY_NAME: dict[str, type[DartsSpace]] = {
    space.name: space for space in (RobustS1Space, RobustS2Space, RobustS3Space, RobustS4Space)
}
