"""How a choice is relaxed: one small file per published method, on one protocol whose defaults are DARTS."""

from typing import TYPE_CHECKING

from smallgroup.registry import Registry
from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.methods.darts import Darts
    from smallgroup.methods.darts_minus import DartsMinus
    from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Progress, Rebuild, Rollback, Stop
    from smallgroup.methods.fair_darts import FairDarts
    from smallgroup.methods.gdas import Gdas
    from smallgroup.methods.method import Architecture, ArchitectureOptimizer, Method, Noise
    from smallgroup.methods.p_darts import PDarts
    from smallgroup.methods.pc_darts import PcDarts
    from smallgroup.methods.relaxed import Relaxed
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "darts": ["Darts"],
            "darts_minus": ["DartsMinus"],
            "decisions": ["Continue", "Decision", "EpochEnd", "Progress", "Rebuild", "Rollback", "Stop"],
            "fair_darts": ["FairDarts"],
            "gdas": ["Gdas"],
            "method": ["Architecture", "ArchitectureOptimizer", "Method", "Noise"],
            "p_darts": ["PDarts"],
            "pc_darts": ["PcDarts"],
            "relaxed": ["Relaxed"],
        },
    )

METHODS: "Registry[Method]" = Registry(
    "method",
    "smallgroup.methods",
    "smallgroup.methods.method:Method",
    {
        "darts": "smallgroup.methods.darts:Darts",
        "darts-minus": "smallgroup.methods.darts_minus:DartsMinus",
        "fair-darts": "smallgroup.methods.fair_darts:FairDarts",
        "gdas": "smallgroup.methods.gdas:Gdas",
        "p-darts": "smallgroup.methods.p_darts:PDarts",
        "pc-darts": "smallgroup.methods.pc_darts:PcDarts",
    },
)
"""Methods by name: the built-in ones, those of installed packages, and those of plugins."""
register = METHODS.register
"""The decorator that registers a method of your own under its `name`."""

__all__ = [
    "METHODS",
    "Architecture",
    "ArchitectureOptimizer",
    "Continue",
    "Darts",
    "DartsMinus",
    "Decision",
    "EpochEnd",
    "FairDarts",
    "Gdas",
    "Method",
    "Noise",
    "PDarts",
    "PcDarts",
    "Progress",
    "Rebuild",
    "Relaxed",
    "Rollback",
    "Stop",
    "register",
]
