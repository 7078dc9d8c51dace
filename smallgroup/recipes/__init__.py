"""Recipes: settings that belong together, as YAML files beside this one, with a line of help for every key.

A recipe has `about` (a sentence), `config` (keys of a config), and `variants`: each says in `for` which datasets,
spaces and methods it is for, and whether for learners alone or in a group, and adds to or replaces keys. Later variants
win. `rows` are the rows of the paper's tables that the recipe can make, `references` those that no search makes. A
config that names a recipe starts from it; the user's keys override it.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.plain_yaml import parsed

DEFAULT = "quick"


@cache
def names() -> tuple[str, ...]:
    """Return the names of all recipes, the default first."""
    found = sorted(path.name.removesuffix(".yaml") for path in files(__name__).iterdir() if path.name.endswith(".yaml"))
    return (DEFAULT, *(name for name in found if name != DEFAULT))


def about(name: str) -> str:
    """Return the line that says what a recipe is for."""
    return str(_read(name)["about"])


def text(name: str) -> str:
    """Return the text of the recipe's file, with its help lines."""
    check_choice("recipe", name, names())
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def keys(name: str, what: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys of a recipe for a dataset, a space, a method and `learners` (alone or group)."""
    result: dict[str, Any] = {}
    for _, layer in layers(name, what):
        result = merged(result, layer)
    return result


def layers(name: str, what: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the keys of a recipe and of its fitting variants, later ones over earlier ones, each with its name."""
    check_choice("recipe", name, names())
    recipe = _read(name)
    found: list[tuple[str, Mapping[str, Any]]] = [(f"recipe {name}", recipe["config"])]
    for variant in recipe.get("variants", ()):
        if all(what[key] in wanted for key, wanted in variant["for"].items()):
            words = " and ".join(f"{key} {what[key]}" for key in variant["for"])
            found.append((f"recipe {name}, variant for {words}", variant["config"]))
    return found


@cache
def options_of(method: str) -> tuple[Mapping[str, Any], ...]:
    """Return the options of a method as recipes and their variants have them: those are known to be valid."""
    parts = [part for name in names() for part in (_read(name), *_read(name).get("variants", ()))]
    sections = [part["config"].get("methods", {}) for part in parts]
    return tuple(section[method] for section in sections if method in section)


@dataclass(frozen=True)
class PaperRow:
    """A row of a table of the paper that is a search."""

    recipe: str
    table: int
    name: str
    search: Mapping[str, Any]
    """Keys of the search beside the recipe."""
    train: str | None = None
    """The dataset on which the cell is trained; None: that of the search."""

    @property
    def keys(self) -> dict[str, Any]:
        """Return the config keys that this row sets."""
        return {"recipe": self.recipe, **self.search}

    @property
    def command(self) -> str:
        """Return the command that runs this row."""
        options = "".join(f" --{key} {value}" for key, value in self.keys.items())
        then = f", then train RUN --dataset {self.train} --recipe {self.recipe}" if self.train else ""
        return f"search{options}{then}"


@cache
def rows() -> tuple[PaperRow, ...]:
    """Return every row of the paper's tables that a recipe has."""
    return tuple(PaperRow(recipe=name, **row) for name in names() for row in _read(name).get("rows", ()))


@dataclass(frozen=True)
class ReferenceFigure:
    """A row of a table of the paper that is no search here: its numbers as printed."""

    table: int
    name: str
    found: str
    """How its authors arrived at the network: "found by evolution", say."""
    source: str
    """The publication of the network."""
    test_error: str
    parameters: str
    """Parameters in millions."""
    test_error_top5: str | None = None
    search_days: str | None = None
    cell: str | None = None
    """The name of a published cell that can be trained."""

    def __str__(self) -> str:
        """Return the numbers and where they are from, in a line."""
        top5 = "" if self.test_error_top5 is None else f", top-5 {self.test_error_top5} %"
        days = "" if self.search_days is None else f", {self.search_days} GPU days"
        cell = "" if self.cell is None else f"; to train: {self.cell}"
        numbers = f"test error {self.test_error} %{top5}, {self.parameters} M parameters{days}"
        return f"{numbers}; {self.found} ({self.source}){cell}"


@cache
def references() -> tuple[ReferenceFigure, ...]:
    """Return the rows of the paper's tables that are no searches here."""
    return tuple(ReferenceFigure(**row) for name in names() for row in _read(name).get("references", ()))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge sections key by key; if both have a key, the upper one wins."""
    result = dict(below)
    for key, value in above.items():
        here = result.get(key)
        inside = isinstance(here, Mapping) and isinstance(value, Mapping)
        result[key] = merged(here or {}, value) if inside else deepcopy(value)
    return result


@cache
def _read(name: str) -> dict[str, Any]:
    recipe = parsed(text(name))
    assert isinstance(recipe, dict)
    return recipe
