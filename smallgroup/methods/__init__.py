"""How a choice is relaxed: one small file per published method, on one protocol whose defaults are DARTS."""

from smallgroup.methods.darts import Darts
from smallgroup.methods.darts_minus import DartsMinus
from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Progress, Rebuild, Rollback, Stop
from smallgroup.methods.fair_darts import FairDarts
from smallgroup.methods.gdas import Gdas
from smallgroup.methods.method import Architecture, ArchitectureOptimizer, Method, Noise
from smallgroup.methods.p_darts import PDarts
from smallgroup.methods.pc_darts import PcDarts
from smallgroup.methods.relaxed import Relaxed

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Darts, DartsMinus, FairDarts, Gdas, PDarts, PcDarts)
}
"""The built-in methods by name."""

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
]
