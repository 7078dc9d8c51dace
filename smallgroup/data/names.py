"""Names of data; checked before anything that reads images is imported."""

import os
from collections.abc import Sequence
from pathlib import Path

from smallgroup.data import DATASETS
from smallgroup.data.errors import DataError
from smallgroup.data.source import Source
from smallgroup.runtime.checks import suggestion
from smallgroup.runtime.text import quoted, shown


def source_of(name: str, root: Path) -> Source:
    """Return what stands behind the name of a dataset."""
    check_name(name)
    key, _, argument = name.partition(":")
    return DATASETS[key](argument, root)


def check_name(name: str, more: Sequence[str] = ()) -> None:
    """Refuse a name under which there is no data; `more` names are allowed beside those of datasets."""
    key, colon, argument = name.partition(":")
    if name in more or (key in DATASETS and bool(DATASETS[key].takes) == bool(colon) == bool(argument)):
        return
    known = ", ".join((*(usage_of(one) for one, _ in DATASETS.usable()), *more))
    hint = suggestion(name, (*names_alone(), *more))
    if os.path.isdir(name) or (name and not hint and key not in DATASETS):
        hint = f"; a folder of images is written folder:{shown(name)}"
    raise DataError(f"data must be one of {known}, but got {quoted(name)}{hint}")


def usage_of(name: str) -> str:
    """Return how a dataset is named in commands: `digits`, `folder:PATH`."""
    takes = DATASETS[name].takes
    return f"{name}:{takes}" if takes else name


def names_alone() -> tuple[str, ...]:
    """Return the datasets that are named by one word: where they are, they are the same for everybody."""
    return tuple(name for name, source in DATASETS.usable() if not source.takes)


def recipe_variant(name: str) -> str:
    """Return the dataset by which recipes know this one; of a name that is none, its first word."""
    key = name.partition(":")[0]
    return DATASETS[key].recipe_variant if key in DATASETS else key
