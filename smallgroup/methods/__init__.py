"""How a choice is relaxed: one small file per published method, on one protocol whose defaults are DARTS."""

from typing import TYPE_CHECKING

from smallgroup.registry import Registry
from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.methods.darts import Darts
    from smallgroup.methods.darts_minus import DartsMinus
    from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Measured, Progress, Rebuild, Rollback, Stop
    from smallgroup.methods.fair_darts import FairDarts
    from smallgroup.methods.gdas import Gdas
    from smallgroup.methods.method import Architecture, ArchitectureOptimizer, Method, Noise, OperationGradients
    from smallgroup.methods.p_darts import PDarts
    from smallgroup.methods.pc_darts import PcDarts
    from smallgroup.methods.relaxed import Relaxed
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "darts": ["Darts"],
            "darts_minus": ["DartsMinus"],
            "decisions": ["Continue", "Decision", "EpochEnd", "Measured", "Progress", "Rebuild", "Rollback", "Stop"],
            "fair_darts": ["FairDarts"],
            "gdas": ["Gdas"],
            "method": ["Architecture", "ArchitectureOptimizer", "Method", "Noise", "OperationGradients"],
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
        "asap": "smallgroup.methods.asap:Asap",
        "bayes-nas": "smallgroup.methods.bayes_nas:BayesNas",
        "beta-darts": "smallgroup.methods.beta_darts:BetaDarts",
        "darts": "smallgroup.methods.darts:Darts",
        "darts-minus": "smallgroup.methods.darts_minus:DartsMinus",
        "darts-plus": "smallgroup.methods.darts_plus:DartsPlus",
        "darts-pt": "smallgroup.methods.darts_pt:DartsPt",
        "dr-nas": "smallgroup.methods.dr_nas:DrNas",
        "drop-nas": "smallgroup.methods.drop_nas:DropNas",
        "dsnas": "smallgroup.methods.dsnas:Dsnas",
        "fair-darts": "smallgroup.methods.fair_darts:FairDarts",
        "gdas": "smallgroup.methods.gdas:Gdas",
        "merge-nas": "smallgroup.methods.merge_nas:MergeNas",
        "noisy-darts": "smallgroup.methods.noisy_darts:NoisyDarts",
        "oles": "smallgroup.methods.oles:Oles",
        "p-darts": "smallgroup.methods.p_darts:PDarts",
        "parsec": "smallgroup.methods.parsec:Parsec",
        "pc-darts": "smallgroup.methods.pc_darts:PcDarts",
        "proxyless": "smallgroup.methods.proxyless:Proxyless",
        "r-darts": "smallgroup.methods.r_darts:RDarts",
        "sdarts-adv": "smallgroup.methods.sdarts_adv:SdartsAdv",
        "sdarts-rs": "smallgroup.methods.sdarts_rs:SdartsRs",
        "snas": "smallgroup.methods.snas:Snas",
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
    "Measured",
    "Method",
    "Noise",
    "OperationGradients",
    "PDarts",
    "PcDarts",
    "Progress",
    "Rebuild",
    "Relaxed",
    "Rollback",
    "Stop",
    "register",
]
