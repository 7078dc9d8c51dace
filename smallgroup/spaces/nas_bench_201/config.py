"""Keys of a config that only NAS-Bench-201 has, with defaults for short searches and trainings."""

from typing import Annotated, Literal

from pydantic import Field

from smallgroup.runtime.bounds import MOST
from smallgroup.spaces.config import NetworkConfig, SpaceConfig
from smallgroup.spaces.nas_bench_201.cell import Derivation

MOST_STAGES = 6


class NasBench201Config(SpaceConfig):
    """The supernet of NAS-Bench-201 in a search."""

    cells_per_stage: int = Field(default=1, ge=1, le=MOST["cells_per_stage"])
    """Cells between two reductions, in NAS-Bench-201."""
    derive: Derivation = "without-none"
    """In NAS-Bench-201: never choose `none`, or (benchmark) choose among all five operations as its authors do."""


class NasBench201NetworkConfig(NetworkConfig):
    """The network that is trained from a cell of NAS-Bench-201."""

    cells_per_stage: int = Field(default=1, ge=1, le=MOST["cells_per_stage"])
    """Cells between two reductions, in NAS-Bench-201."""
    halvings: Annotated[int, Field(ge=0, le=MOST["halvings"])] | Literal["auto"] = "auto"
    """How often the stem halves the image before the first cell, in NAS-Bench-201.

    The benchmark's never does; auto: until the last stage sees 4x4 pixels or fewer.
    """
    reduction: Literal["residual", "pool"] = "pool"
    """What stands between two stages of NAS-Bench-201: the benchmark's residual block, or a convolution and max
    pooling, which learns faster in short trainings."""
    stages: int = Field(default=2, ge=1, le=MOST_STAGES)
    """Stages of NAS-Bench-201 networks, each with half the size and twice the channels of the one before.

    The benchmark has three; what fewer save can go into width and epochs.
    """
    pooling: Literal["average", "maximum"] = "maximum"
    """What makes a vector of the last map in NAS-Bench-201: the benchmark's average, or the maximum, which learns
    faster."""
