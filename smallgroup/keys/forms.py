"""Short and long forms of the same keys, and one set of keys above another."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from smallgroup import recipes
from smallgroup.runtime.bounds import MOST

SHORT = {
    "dataset": "data.dataset",
    "unlabeled": "data.unlabeled",
    "data_root": "data.data_root",
    "lambda": "search.lambda",
    "lam": "search.lambda",
    "hypergradient": "search.hypergradient",
    "device": "run.device",
    "on_nonfinite": "run.on_nonfinite",
    "size": "data.size",
    "skip_bad_images": "data.skip_bad_images",
}
"""Keys that may stand at the top, and where they belong."""


def long_form(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every key in its section; a key that is given in both places is refused."""
    return overlaid({}, given)


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge what a user gives in two places, in long form; if both have a key, the upper one wins."""
    low, high = _in_sections(below), _in_sections(above)
    learners: object = None
    for given in (low, high):
        method, number = given.pop("method", None), given.pop("learners", None)
        if method is not None or number is not None:
            learners = _list_learners(learners, method, number)
    for key, value in high.items():
        if isinstance(value, Mapping) and isinstance(low.get(key, {}), str | int | float | list):
            raise ValueError(f"{key} must be a section of keys, but got {str(low[key])[:60]!r}")
    result = recipes.merged(low, high)
    return result if learners is None else {**result, "learners": learners}


def _in_sections(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return short keys in their sections; `environment` in a run's file describes its machine and is no setting."""
    result = {key: value for key, value in given.items() if key != "environment"}
    if isinstance(result.get("space"), str):
        result["space"] = {"name": result["space"]}
    for short, path in SHORT.items():
        if short in result:
            room, key = path.split(".")
            section = result.get(room, {})
            if isinstance(section, BaseModel):
                section = section.model_dump(by_alias=True, exclude_unset=True)
            if not isinstance(section, Mapping):
                raise ValueError(f"{room} must be a section of keys, but got {str(section)[:60]!r}")
            if key in section or (key == "lambda" and "lam" in section):
                raise ValueError(f"{short} must be given once, but it is also given as {path}")
            result[room] = {**section, key: result.pop(short)}
    search = result.get("search")
    if isinstance(search, Mapping) and "lam" in search and "lambda" not in search:
        result["search"] = {"lambda" if key == "lam" else key: value for key, value in search.items()}
    return result


def _list_learners(below: object, method: object, given: object) -> object:
    """Return the list of learners from a number, a method for all of them, and the list there was before."""
    counted = isinstance(given, int) and not isinstance(given, bool)
    if given is not None and not counted:
        if not isinstance(given, list | tuple):
            got = str(given)[:60]
            raise ValueError(f"learners must be a number from 1 to 64 or a list of learners, but got {got!r}")
        if method is not None:
            raise ValueError(
                "method sets the method of all learners, but learners is a list in which each names its own"
            )
        return given
    learners = list(below) if isinstance(below, list | tuple) and below else [{}, {}]
    if counted:
        assert isinstance(given, int)
        if not 1 <= given <= MOST["learners"]:
            raise ValueError(f"1 <= learners <= {MOST['learners']} must hold, but got learners={given}")
        if len(learners) != given:
            if any(learner != learners[0] for learner in learners):
                raise ValueError(f"learners={given} needs identical learners, but they are a list of different ones")
            learners = learners[:1] * given
    if method is None:
        return learners
    return [
        learner
        if part(learner, "method", None) == method
        else {"method": method, "space": part(learner, "space", None)}
        for learner in learners
    ]


def different(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the first, sections and what is in them, that are not the same in the second."""
    result: dict[str, Any] = {}
    for key, value in one.items():
        if isinstance(value, Mapping) and isinstance(other.get(key), Mapping):
            if inner := different(value, other[key]):
                result[key] = inner
        elif key not in other or value != other[key]:
            result[key] = value
    return result


def part(section: object, key: str, default: object) -> object:
    """Return a key of a section, which may be a model, or anything that a user wrote in its place."""
    return section.get(key, default) if isinstance(section, Mapping) else getattr(section, key, default)
