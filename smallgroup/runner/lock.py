"""One process per run folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = ".lock"


class InUseError(ValueError):
    """Another process works in the folder."""


def held(folder: Path) -> bool:
    """Whether a process works in the folder now."""
    try:
        with (folder / FILE).open("r", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, or say who does. The system lets go of it when the process ends, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read()[:20].strip()
            raise InUseError(
                f"a run folder is for one process at a time, but {folder} is in use by process {owner}"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
