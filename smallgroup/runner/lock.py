"""One process per run folder."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from smallgroup.runtime.files import naming, open_regular

FILE = ".lock"
TRIES, PAUSE = 5, 0.02
UNKNOWN = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
"""What file systems without `flock` say; there nobody notices the others."""


class InUseError(ValueError):
    """Another process works in the folder."""


def held(folder: Path) -> bool:
    """Whether a process works in the folder now."""
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
    return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, or say who does. The system lets go of it when the process ends, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_regular(folder / FILE, "ab+") as file:
        if not _taken(file):
            file.seek(0)
            owner = file.read(20).decode(errors="replace").strip()
            raise InUseError(f"a run folder is for one process at a time, but {folder} is in use by process {owner}")
        with naming(folder / FILE):
            file.truncate(0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())  # what is buffered would fail again when it is closed
        yield


def _taken(file: IO[bytes]) -> bool:
    """Whether the lock could be had. Who only asks whether a folder is in use holds it for a moment: that is no use."""
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError as error:
            if error.errno in UNKNOWN:
                return True
            raise
        else:
            return True
    return False
