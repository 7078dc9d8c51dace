"""What may be chosen: operations, cells, supernets, genotypes."""

from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Space

SPACES: dict[str, type[DartsSpace] | type[NasBench201Space]] = {
    space.name: space for space in (DartsSpace, NasBench201Space)
}
"""The built-in spaces by name."""

__all__ = ["SPACES", "DartsSpace", "NasBench201Space", "Space"]
