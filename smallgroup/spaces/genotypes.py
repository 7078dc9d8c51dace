"""Genotypes of every space: as files, as text, and the published ones by name.

A file is JSON that says where its genotype comes from:

    {"schema": 1, "space": "darts", "method": "pc-darts", "dataset": "cifar10", "seed": 0, "genotype": {...}}

Files and texts come from anywhere. Whatever is wrong with one is a ValueError that says so in a sentence.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smallgroup.runtime.checks import nearest, unmarked
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.spaces import SPACES, definition_of, definitions
from smallgroup.spaces.definition import Published
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.reading import check_integer, check_keys, show

SCHEMA = 1
LARGEST = 100_000
"""Bytes of a file; a genotype with its origin has about one thousand."""
FILE = "genotype.json"
"""The name of the file in a run's folder."""


@dataclass(frozen=True)
class Origin:
    """The origin of a genotype, as far as it is known."""

    method: str | None = None
    dataset: str | None = None
    seed: int | None = None


def to_plain(genotype: Genotype) -> Any:  # noqa: ANN401 -- what JSON can hold
    """Return a genotype as files have it, in the form of its space."""
    return definition_of(genotype.space).to_plain(genotype)


def from_plain(space: object, data: object) -> Genotype:
    """Return the genotype that `to_plain` gave these values for."""
    if not isinstance(space, str) or space not in SPACES:
        hint = (
            "; a space of a plugin is registered by --plugin MODULE, or in Python by importing it"
            if isinstance(space, str)
            else ""
        )
        raise ValueError(f"space must be one of {', '.join(SPACES)}, but got {show(space)}{hint}")
    return definition_of(space).from_plain(data)


def dumps(genotype: Genotype, origin: Origin | None = None) -> str:
    """Return the text of a genotype file."""
    origin = origin or Origin()
    return json.dumps(
        {
            "schema": SCHEMA,
            "space": genotype.space,
            "method": origin.method,
            "dataset": origin.dataset,
            "seed": origin.seed,
            "genotype": to_plain(genotype),
        }
    )


def loads(text: str) -> tuple[Genotype, Origin]:
    """Read the text of a file, or a genotype alone where its space has a form for that."""
    if len(text) > LARGEST:
        raise ValueError(f"a genotype as JSON has at most {LARGEST:,} characters, but got {len(text):,}")
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_int=_integer)
    except RecursionError:
        raise ValueError("a genotype as JSON must not have deeply nested brackets, but it has") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"a genotype must be JSON, but line {error.lineno} is not: {error.msg}") from None
    if isinstance(data, dict) and "schema" not in data:
        for definition in definitions():
            if definition.reads_plain(data):
                return definition.from_plain(data), Origin()
    return _record(data)


def read(path: str | os.PathLike[str], *, links: bool = True) -> tuple[Genotype, Origin]:
    """Read a file: JSON as above, or a text in the notation of a space.

    It may be a link if the user names it, but not in the folder of a run.
    """
    content = read_regular(Path(path), LARGEST, links=links)
    try:
        return _parse(content.decode("utf-8-sig"))[1:]
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)}: a genotype must be UTF-8 text, but byte {error.start} is not") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def write(path: str | os.PathLike[str], genotype: Genotype, origin: Origin | None = None) -> None:
    """Write a file. It is there as a whole or not at all, whatever happens in between."""
    write_whole(Path(path), dumps(genotype, origin) + "\n")


def resolve(text: str) -> tuple[str, Genotype]:
    """Resolve a published name, a file, a run's folder or the genotype itself. Return it with a name."""
    known = published()
    for name, genotype in known.items():
        if unmarked(text) == unmarked(name):
            return name, genotype
    if os.path.isdir(text):
        return text, read(Path(text) / FILE, links=False)[0]
    if os.path.exists(text):
        return text, read(text)[0]
    if text.lstrip().startswith("{") or any(definition.reads(text) for definition in definitions()):
        return _parse(text)[:2]
    near = nearest(text, known, likeness=0.5)
    hint = f"did you mean {near}?" if near else "`smallgroup list genotypes` lists the published ones"
    raise ValueError(f"{show(text)} is not a published genotype, a file, or a genotype as text; {hint}")


def published() -> dict[str, Genotype]:
    """Return the genotypes of papers, by the name they have there."""
    return {name: entry.genotype for name, entry in _published().items()}


def published_about() -> dict[str, str]:
    """Return a line on where each of them comes from."""
    return {name: entry.about for name, entry in _published().items()}


def _published() -> dict[str, Published]:
    return {name: entry for definition in definitions() for name, entry in definition.published().items()}


def _parse(text: str) -> tuple[str, Genotype, Origin]:
    """Read a text in the notation of a space, or JSON; of several spaces that claim it, the first that can read it."""
    problem: ValueError | None = None
    for definition in definitions():
        if definition.reads(text):
            try:
                name, genotype = definition.parse(text)
            except ValueError as error:
                problem = problem or error
            else:
                return name or "genotype", genotype, Origin()
    if problem is not None:
        raise problem
    return "genotype", *loads(text)


def _record(data: object) -> tuple[Genotype, Origin]:
    keys = check_keys("a genotype file", data, ("schema", "space", "genotype"), ("method", "dataset", "seed"))
    schema = check_integer("schema of a genotype file", keys["schema"])
    if schema != SCHEMA:
        raise ValueError(f"schema of a genotype file must be {SCHEMA}, the one this version reads, but got {schema}")
    seed = keys.get("seed")
    origin = Origin(
        method=_text_or_none("method", keys.get("method")),
        dataset=_text_or_none("dataset", keys.get("dataset")),
        seed=None if seed is None else check_integer("seed of a genotype file", seed),
    )
    return from_plain(keys["space"], keys["genotype"]), origin


def _text_or_none(name: str, data: object) -> str | None:
    if data is not None and not isinstance(data, str):
        raise ValueError(f"{name} of a genotype file must be a text or null, but got {show(data)}")
    return data


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = dict(pairs)
    if len(keys) < len(pairs):
        raise ValueError("an object in a genotype file must have every key once, but one occurs twice")
    return keys


def _integer(text: str) -> int:
    # 18 digits fit into 63 bits; Python refuses to print integers of thousands.
    if len(text) > 18:
        raise ValueError(f"a number in a genotype file must have at most 18 digits, but one has {len(text)}")
    return int(text)
