"""Where in a file of a run there are texts, and how others are put there."""

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

Place = tuple[str | int, ...]
"""The way to a value; the last part of the way to a key is `KEY` and the key itself."""
KEY = "the key"


def read(path: Path) -> Any:
    """A document; metrics are a list of rows."""
    text = path.read_text()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)


def write(path: Path, document: Any) -> None:
    """The same back, in ASCII: the attack is in the values and not in how the file is written."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in document))
    else:
        path.write_text(json.dumps(document, indent=1))  # which is YAML, too


def places_in(document: Any, *, keys: bool = True, scalars: bool = False) -> list[Place]:
    """Places of all texts; of rows and other entries of lists, those of the first three alone.

    Args:
        document: what was read.
        keys: whether keys are texts.
        scalars: whether numbers, truth values and nothing count too.
    """

    def walk(value: Any, way: Place) -> Iterator[Place]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if keys:
                    yield (*way, KEY, key)
                yield from walk(inner, (*way, key))
        elif isinstance(value, list):
            for number, inner in enumerate(value[:3]):
                yield from walk(inner, (*way, number))
        elif isinstance(value, str) or scalars:
            yield way

    return list(walk(document, ()))


def planted(document: Any, places: Collection[Place], attack: Callable[[Place], str]) -> Any:
    """The document with attacks at some places."""
    chosen = set(places)

    def walk(value: Any, way: Place) -> Any:
        if way in chosen:
            return attack(way)
        if isinstance(value, list):
            return [walk(inner, (*way, number)) for number, inner in enumerate(value)]
        if not isinstance(value, dict):
            return value
        return {
            attack((*way, KEY, key)) if (*way, KEY, key) in chosen else key: walk(inner, (*way, key))
            for key, inner in value.items()
        }

    return walk(document, ())
