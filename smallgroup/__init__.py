"""Neural architecture search in which a small group of learners teach one another.

import smallgroup

result = smallgroup.search(smallgroup.Config(dataset="digits", learners=2))
"""

import os
from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names
from smallgroup.version import __version__

if TYPE_CHECKING:
    from smallgroup.api import search, train, train_mutually
    from smallgroup.config import Config
    from smallgroup.controls import train_controls
    from smallgroup.pages import draw_report
    from smallgroup.phases.training.evaluation import evaluate
    from smallgroup.phases.training.load import load
    from smallgroup.phases.training.predict import predict
    from smallgroup.pipeline import run
    from smallgroup.ranks import on_ranks
    from smallgroup.seeds import search_seeds
    from smallgroup.shipping import export
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "api": ["search", "train", "train_mutually"],
            "config": ["Config"],
            "controls": ["train_controls"],
            "pages": ["draw_report"],
            "phases.training.evaluation": ["evaluate"],
            "phases.training.load": ["load"],
            "phases.training.predict": ["predict"],
            "pipeline": ["run"],
            "ranks": ["on_ranks"],
            "seeds": ["search_seeds"],
            "shipping": ["export"],
        },
    )

# Before torch is loaded. See `smallgroup.runtime.environment.keep_team_size`, which helps where it was loaded earlier.
os.environ["OMP_DYNAMIC"] = "false"

__all__ = [
    "Config",
    "__version__",
    "draw_report",
    "evaluate",
    "export",
    "load",
    "on_ranks",
    "predict",
    "run",
    "search",
    "search_seeds",
    "train",
    "train_controls",
    "train_mutually",
]
