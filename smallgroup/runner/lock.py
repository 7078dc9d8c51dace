"""Lock the folder of a run, so that one process at a time writes to it."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from smallgroup.runner.owner import InUseError, LostLockError, Ownership, is_owned
from smallgroup.runtime.files import naming, open_regular

__all__ = ["FILE", "InUseError", "LostLockError", "Ownership", "held", "locked"]

FILE = ".lock"
TRIES, PAUSE = 5, 0.02
UNKNOWN = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
"""What file systems without `flock` say; there the owner file alone keeps others out."""


def held(folder: Path) -> bool:
    """Return whether a process works in the folder now."""
    alone = True
    try:
        with open_regular(folder / FILE) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # who works in a folder holds a regular file
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise
        alone = False
    return is_owned(folder, alone=alone)


@contextmanager
def locked(folder: Path) -> Iterator[Ownership]:
    """Hold the folder, or say who does.

    On this host the system lets go of it when the process ends, however it ends. On other hosts it is free at once if
    the process ends in order, and else `owner.STALE` seconds after its last sign of life.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open_regular(folder / FILE, "ab+") as file:
        alone = _taken(file)
        if alone is False:
            file.seek(0)
            # A process number has at most 20 digits; the file may hold anything.
            owner = file.read(20).decode(errors="replace").strip()
            raise InUseError(f"a run folder is for one process at a time, but {folder} is in use by process {owner}")
        ownership = Ownership(folder)
        with ownership.kept(alone=alone is True):
            with naming(folder / FILE):
                file.truncate(0)
                os.write(file.fileno(), f"{os.getpid()}\n".encode())  # what is buffered would fail again when closed
            yield ownership


def _taken(file: IO[bytes]) -> bool | None:
    """Return whether the lock was taken; None where such locks do not exist.

    Who only asks whether a folder is in use holds it for a moment: that is no use.
    """
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError as error:
            if error.errno in UNKNOWN:
                return None
            raise
        else:
            return True
    return False
