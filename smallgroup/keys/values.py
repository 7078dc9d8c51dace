"""Values as texts: those of `--set key=value`, and several seeds."""

import re

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
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first >= 1000 or len(seeds) > 1000:
            raise ValueError(f"seeds must be like 1-5 or 1,4,7, but got {text[:60]!r}")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must differ, but got {text[:60]!r}")
    return seeds
