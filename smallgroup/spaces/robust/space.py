"""The spaces robust-s1 to robust-s4 at a given size."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from smallgroup.spaces.darts.space import DartsSpace
from smallgroup.spaces.robust.genotype import RobustGenotype


@dataclass(frozen=True)
class RobustSpace(DartsSpace):
    """The DARTS space with fewer operations; `robust_space` makes the class of each genotype's space."""

    genotype: ClassVar[type[RobustGenotype]]


@cache
def robust_space(genotype: type[RobustGenotype]) -> type[RobustSpace]:
    """Return the space whose genotypes are of this class."""
    own = {"name": genotype.space, "kinds": genotype.kinds, "genotype": genotype, "__module__": __name__}
    return type(genotype.__name__.replace("Genotype", "RobustSpace"), (RobustSpace,), own)
