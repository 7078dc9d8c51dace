"""The NAS-Bench-201 space: one cell of four nodes and six edges, five operations, 15,625 cells."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.spaces.nas_bench_201.cell import EDGES, OPERATIONS, Cell, Derivation, every_cell
    from smallgroup.spaces.nas_bench_201.space import NasBench201Space
    from smallgroup.spaces.nas_bench_201.truth import Truth
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cell": ["EDGES", "OPERATIONS", "Cell", "Derivation", "every_cell"],
            "space": ["NasBench201Space"],
            "truth": ["Truth"],
        },
    )

SPACES = {"nas-bench-201": "smallgroup.spaces.nas_bench_201.definition:NasBench201Definition"}
"""The built-in definition of the space, by name: `module:Class`."""
GROUND_TRUTHS = {"nas-bench-201": "smallgroup.spaces.nas_bench_201.truth:Truth"}
"""The built-in ground truths of the space, by name."""

__all__ = ["EDGES", "OPERATIONS", "Cell", "Derivation", "NasBench201Space", "Truth", "every_cell"]
