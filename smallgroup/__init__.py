"""Neural architecture search in which a small group of learners teach one another.

import smallgroup

result = smallgroup.search(smallgroup.Config(dataset="digits", learners=2))
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smallgroup.api import search, train
    from smallgroup.config import Config
    from smallgroup.phases.evaluation.load import load

# Before torch is loaded. See `smallgroup.runtime.environment.keep_team_size`, which helps where it was loaded earlier.
os.environ["OMP_DYNAMIC"] = "false"

__version__ = "0.1.0"

__all__ = ["Config", "load", "search", "train"]

_HOMES = {
    "Config": "smallgroup.config",
    "load": "smallgroup.phases.evaluation.load",
    "search": "smallgroup.api",
    "train": "smallgroup.api",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Imported when they are used: the rooms do not need one another to be imported."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """With what is imported when it is used."""
    return sorted({*globals(), *__all__})
