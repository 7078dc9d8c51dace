"""Values as texts: those of `--set key=value`, and several seeds."""

import re
from collections.abc import Mapping

import yaml

from smallgroup.runtime.plain_yaml import NotTakenError, parsed


def value_of(path: str, text: str) -> object:
    """Return the value of a key that is written as YAML, as in `--set search.epochs=3`."""
    try:
        return parsed(text)
    except NotTakenError as error:
        raise ValueError(f"{path}: {error}") from None
    except yaml.YAMLError:
        raise ValueError(f"a value must be YAML, but got {text[:80]!r}") from None


def seeds_of(text: str) -> list[int]:
    """Return the seeds of a text such as 1-5, or 1,4,7, or both."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first >= 1000 or len(seeds) > 1000:
            raise ValueError(f"seeds must be like 1-5 or 1,4,7, but got {text[:60]!r}")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must differ, but got {text[:60]!r}")
    return seeds


def check_switches(given: object, taken: object, path: str = "") -> None:
    """Refuse true and false where a number belongs: Python would take them for 1 and 0."""
    if isinstance(given, bool) and not isinstance(taken, bool | str):
        raise ValueError(f"{path} must be a number, but got {str(given).lower()}")
    if isinstance(given, Mapping) and isinstance(taken, Mapping):
        for key in given.keys() & taken.keys():
            check_switches(given[key], taken[key], f"{path}.{key}".lstrip("."))
    elif isinstance(given, list | tuple) and isinstance(taken, list | tuple):
        for i, (one, other) in enumerate(zip(given, taken, strict=False)):
            check_switches(one, other, f"{path}.{i}".lstrip("."))
