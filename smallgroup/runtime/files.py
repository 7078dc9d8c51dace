"""Files that are whole or not there."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file beside its place, bring it to the disk, move it there: killed in between, nothing has changed."""
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with naming(path), temporary.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what `write_whole` left of files in a folder when it was killed; nobody else may be writing there."""
    for path in folder.glob(".*.????????"):
        if set(path.name[-8:]) <= set("0123456789abcdef"):
            path.unlink(missing_ok=True)


def read_regular(path: Path) -> bytes:
    """The content of a regular file: a pipe would be waited for, and a device may have no end."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path.name} must be a regular file, but it is none")
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say of which file a system's complaint is: a disk that is full does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
