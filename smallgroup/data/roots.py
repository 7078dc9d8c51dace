"""Where data lives on this machine."""

import os
from pathlib import Path

VARIABLE = "SMALLGROUP_DATA"


def data_root(given: Path | None = None) -> Path:
    """The folder data is looked for in: the given one, else `SMALLGROUP_DATA`, else the user's cache folder.

    It need not exist: the digits need no file. Who looks for a file says where it was looked for.
    """
    if given is not None:
        return given.expanduser()
    if from_environment := os.environ.get(VARIABLE):
        return Path(from_environment).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path("~/.cache").expanduser()) / "smallgroup"
