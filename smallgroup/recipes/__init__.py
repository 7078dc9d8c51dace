"""Recipes: settings that belong together, as YAML files beside this one, with a line of help for every key.

A recipe has `about` (a sentence), `config` (keys of a config), and `variants`: each says in `for` which datasets,
spaces and methods it is for, and adds to or replaces keys. Later variants win. A config that names a recipe starts
from it, and what the user gives stands above it.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from smallgroup.runtime.checks import check_choice

DEFAULT = "quick"


@cache
def names() -> tuple[str, ...]:
    """Every recipe, the default first."""
    found = sorted(path.name.removesuffix(".yaml") for path in files(__name__).iterdir() if path.name.endswith(".yaml"))
    return (DEFAULT, *(name for name in found if name != DEFAULT))


def about(name: str) -> str:
    """What a recipe is for."""
    return str(_read(name)["about"])


def text(name: str) -> str:
    """The file, with its lines of help."""
    check_choice("recipe", name, names())
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def keys(name: str, *, dataset: str, space: str, method: str | None) -> dict[str, Any]:
    """The keys of a recipe for data, a space and a method; `folder:PATH` counts as the dataset `folder`."""
    check_choice("recipe", name, names())
    recipe = _read(name)
    what = {"dataset": dataset.partition(":")[0], "space": space, "method": method}
    result: dict[str, Any] = deepcopy(recipe["config"])
    for variant in recipe.get("variants", ()):
        if all(what[key] in wanted for key, wanted in variant["for"].items()):
            result = merged(result, variant["config"])
    return result


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Sections key by key; of what both have, the upper one."""
    result = dict(below)
    for key, value in above.items():
        here = result.get(key)
        inside = isinstance(here, Mapping) and isinstance(value, Mapping)
        result[key] = merged(here or {}, value) if inside else deepcopy(value)
    return result


@cache
def _read(name: str) -> dict[str, Any]:
    recipe: dict[str, Any] = yaml.safe_load(text(name))
    return recipe
