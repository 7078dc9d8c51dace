"""Where data lives on this machine."""

import os
from pathlib import Path

VARIABLE = "SMALLGROUP_DATA"


def data_root(given: Path | None = None) -> Path:
    """Return the folder to look for data in: the given one, else `SMALLGROUP_DATA`, else the user's cache folder.

    It need not exist: the digits need no file. An error about a missing file names the folder.
    """
    if given is not None:
        return expanded(given)
    if from_environment := os.environ.get(VARIABLE):
        return expanded(from_environment)
    return cache_folder()


def cache_folder() -> Path:
    """Return the user's cache folder for this package."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else expanded("~/.cache")) / "smallgroup"


def expanded(path: Path | str) -> Path:
    """Return a path with `~` expanded; the home of an unknown user stays as it is, and is then not found."""
    return Path(os.path.expanduser(path))
