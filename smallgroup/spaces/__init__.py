"""What may be chosen: operations, cells, supernets, genotypes."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import LazyClasses, lazy_names

if TYPE_CHECKING:
    from smallgroup.spaces.darts import DartsSpace
    from smallgroup.spaces.nas_bench_201 import NasBench201Space
    from smallgroup.spaces.space import Space
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "darts": ["DartsSpace"],
            "nas_bench_201": ["NasBench201Space"],
            "space": ["Space"],
        },
    )

SPACES: "LazyClasses[DartsSpace | NasBench201Space]" = LazyClasses(
    {
        "darts": "smallgroup.spaces.darts.space:DartsSpace",
        "nas-bench-201": "smallgroup.spaces.nas_bench_201.space:NasBench201Space",
    }
)
"""The built-in spaces by name."""

__all__ = ["SPACES", "DartsSpace", "NasBench201Space", "Space"]
