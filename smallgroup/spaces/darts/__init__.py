"""The DARTS space: a normal and a reduction cell of four nodes each, eight operations per edge."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, DartsGenotype, Edge
    from smallgroup.spaces.darts.names import OPERATIONS
    from smallgroup.spaces.darts.space import DartsSpace
    from smallgroup.spaces.darts.truth import Surrogate, SurrogatePrediction
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "genotype": ["INPUTS", "CellGenotype", "DartsGenotype", "Edge"],
            "names": ["OPERATIONS"],
            "space": ["DartsSpace"],
            "truth": ["Surrogate", "SurrogatePrediction"],
        },
    )

SPACES = {"darts": "smallgroup.spaces.darts.definition:DartsDefinition"}
"""The built-in definition of the space, by name: `module:Class`."""
GROUND_TRUTHS = {"nas-bench-301": "smallgroup.spaces.darts.truth:Surrogate"}
"""The built-in ground truths of the space, by name."""

__all__ = [
    "INPUTS",
    "OPERATIONS",
    "CellGenotype",
    "DartsGenotype",
    "DartsSpace",
    "Edge",
    "Surrogate",
    "SurrogatePrediction",
]
