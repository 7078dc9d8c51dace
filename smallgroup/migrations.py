"""Configs of earlier versions: what their runs did, in the keys of today.

A run's own config names every key of its version. A key that was added later gets the value that says what such runs
did, which need not be today's default. A run is known by its keys without later ones of that value: so finished runs of
studies are found again by their hash, and begun runs are resumed.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

SPACE = {"derive": "benchmark"}
"""Runs without `derive` chose among all operations, `none` included."""
LATER: dict[str, Any] = {
    "data": {"skip_bad_images": False},
    "space": SPACE,
    "search": {
        "answer": "retained",
        "clip_lookahead": True,
        "image_size": None,
        "lambda_ramp": 0.0,
        "label_temperature": 1.0,
        "label_confidence": 0.0,
        "cost": "multiply_adds",
        "weights": {"nesterov": False},
    },
    "playoff": {"least_steps": 1},
    "training": {
        "warmup_rate": "full",
        "optimizer": "sgd",
        "average": 0.0,
        "least_steps": None,
        "validation": 0.0,
        "group": None,
        "batch_norm": "per-device",
        "max_flash_kb": None,
        "max_ram_kb": None,
        "max_latency_ms": None,
        "network": {"halvings": 0, "reduction": "residual", "stages": 3, "pooling": "average"},
    },
}
"""Keys that runs of earlier versions do not have, with the value that says what those runs did."""
_COLORS = {"colour_jitter": "color_jitter"}
RENAMED = {
    "data": {"labelled_fraction": "labeled_fraction"},
    "data.augmentation": _COLORS,
    "search": {"labellers": "labelers"},
    "training.augmentation": _COLORS,
    "training.group.weak": _COLORS,
    "training.group.strong": _COLORS,
}
"""By the path of the section, keys of earlier versions and their names of today: one spelling for every word."""
EARLIER: dict[str, Any] = {
    "space": {"cells": 3, "cells_per_stage": 1, "stem": "auto"},
    "playoff": {
        "network": {
            "cells": 5,
            "cells_per_stage": 1,
            "stages": 2,
            "halvings": "auto",
            "reduction": "pool",
            "pooling": "maximum",
            "stem": "auto",
            "auxiliary": "none",
        }
    },
    "training": {
        "network": {
            "cells": 20,
            "cells_per_stage": 5,
            "stages": 3,
            "halvings": 0,
            "reduction": "residual",
            "pooling": "average",
            "stem": "auto",
            "auxiliary": "two-norms",
        }
    },
}
"""Keys that runs of earlier versions have whatever space they are in, with the value they had where nobody gave one.

Today a config has those of its own space, and what a user gives besides.
"""

QUICK: dict[str, Any] = {
    "training": {
        "network": {
            "cells": 5,
            "cells_per_stage": 1,
            "stages": 2,
            "halvings": "auto",
            "reduction": "pool",
            "pooling": "maximum",
            "auxiliary": "none",
        }
    }
}
"""Those that the recipe `quick` gave another value."""


def migrated(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a run's own config with their names of today, and those that were added later."""
    result = deepcopy(dict(config))
    for path, names in RENAMED.items():
        _rename(_section(result, path), names)
    if "plugins" in result:  # younger than all of those: what is missing is of another space
        return result
    _fill(result, LATER)
    for learner in _learners(result):
        _fill(learner, {"space": SPACE})
    return result


def as_before(config: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved config as earlier versions wrote it: what a run is known by.

    Later keys are left out where their value says what earlier versions did, and keys of other spaces are there: as the
    recipe has them, or as they were where nobody gave them. Renamed keys have their earlier names.
    """
    result = deepcopy(dict(config))
    _fill(result, _like(EARLIER, recipe))
    if result.get("recipe") == "quick":
        _fill(result, QUICK)
    _fill(result, EARLIER)
    for learner in _learners(result):
        _fill(learner, {"space": EARLIER["space"]})
    _drop(result, LATER)
    for section in (result, *_learners(result)):
        _drop(section, {"space": SPACE})
        space = section.get("space")
        if isinstance(space, dict) and space.get("name") == "darts":  # there the key means nothing
            space.pop("derive", None)
    for path, keys in RENAMED.items():
        _rename(_section(result, path), {now: before for before, now in keys.items()})
    return result


def study_as_before(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study with the names that rows had in earlier versions: what its hash is computed from."""
    result = deepcopy(dict(study))
    for row in result["rows"]:
        _rename(row, {"labelers": "labellers"})
    return result


def name_of_today(key: str) -> str:
    """Return what a key such as `data.size` is called now."""
    section, _, name = key.rpartition(".")
    return f"{section}.{RENAMED[section].get(name, name)}" if section in RENAMED else key


def _section(config: Mapping[str, Any], path: str) -> object:
    """Return the section of a path such as `training.group`; a damaged file may have anything in its place."""
    found: object = config
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _rename(section: object, names: Mapping[str, str]) -> None:
    """Give keys of a section their other names; with both names there, the reader refuses the one it does not know."""
    if isinstance(section, dict):
        for name, other in names.items():
            if name in section and other not in section:
                section[other] = section.pop(name)


def _like(values: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same keys with the values of another config, as far as it has them."""
    found = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found[key] = _like(value, other[key]) if isinstance(other.get(key), Mapping) else {}
        elif key in other:
            found[key] = other[key]
    return found


def _fill(section: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Add missing keys to sections that are there; a damaged file may have anything in their place."""
    for key, value in values.items():
        if not isinstance(value, Mapping):
            section.setdefault(key, value)
        elif isinstance(section.get(key), dict):
            _fill(section[key], value)


def _drop(section: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Remove the keys that have these values."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            if isinstance(section.get(key), dict):
                _drop(section[key], value)
        elif section.get(key) == value:
            section.pop(key, None)


def _learners(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    learners = config.get("learners")
    return [one for one in learners if isinstance(one, dict)] if isinstance(learners, list | tuple) else []
