"""Atomic writes, and reads that accept regular files only."""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO

LARGEST = 200_000_000
"""Bytes of a document of a run; the largest, a result that says who of a thousand classes was taken for whom, has ten
million."""


UNFINISHED = ".smallgroup-unfinished-"
"""How the names of files and folders begin that are still being written; 16 hexadecimal digits follow."""
_UNFINISHED_NAME = re.compile(rf"{re.escape(UNFINISHED)}[0-9a-f]{{16}}")


class NotRegularError(ValueError):
    """Something else is in the place of a file."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file beside its place, bring it to the disk, move it there: killed in between, nothing has changed."""
    with writing_whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def writing_whole(path: Path) -> Iterator[IO[bytes]]:
    """Write a file piece by piece in the same way: it is there once the block has ended without an error."""
    temporary = unfinished_in(path.parent)
    try:
        with naming(path), temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        try:
            temporary.replace(path)
        except OSError as error:  # such as a folder in its place
            raise OSError(error.errno, error.strerror, str(path)) from None
        bring_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def bring_to_disk(folder: Path) -> None:
    """Sync the names in a folder: without them a file that is on the disk is not found after a crash."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # one that may be written to and not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):  # file systems that do so for files alone
            raise
    finally:
        os.close(descriptor)


def unfinished_in(folder: Path) -> Path:
    """Return a new name in a folder that no user would choose: what has such a name may be removed after a kill."""
    return folder / f"{UNFINISHED}{token_hex(8)}"


def is_unfinished(path: Path) -> bool:
    """Return whether `unfinished_in` gives names like this one."""
    return _UNFINISHED_NAME.fullmatch(path.name) is not None


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files that a killed `write_whole` left in a folder; no other process may write there."""
    for path in folder.iterdir():
        if is_unfinished(path) and stat.S_ISREG(path.lstat().st_mode):
            path.unlink()


def check_not_link(folder: Path, whole: str = "run") -> None:
    """Refuse a link in the place of a folder inside a run or study: it would lead writing and removing elsewhere."""
    if folder.is_symlink():
        raise NotRegularError(
            f"{folder} must be a folder of the {whole} itself, but it is a link; move the folder there"
        )


def open_regular(path: Path, mode: str = "rb", *, links: bool = False) -> IO[bytes]:
    """Open a file that is nothing else, as all files in the folder of a run are.

    A link could lead to any file of the user's, a pipe would be waited for, and a device may have no end.

    Args:
        path: the folders on the way may be links.
        mode: one for bytes.
        links: whether the file itself may be one, as a file that the user names.
    """

    def opener(name: str, flags: int) -> int:
        try:
            descriptor = os.open(name, flags | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW), 0o666)
        except OSError:
            if os.path.lexists(name):  # not to be opened, perhaps because of what it is
                _check_regular(path, (os.stat if links else os.lstat)(name).st_mode)
            raise
        try:
            _check_regular(path, os.fstat(descriptor).st_mode)
        except ValueError:
            os.close(descriptor)
            raise
        return descriptor

    return open(path, mode, opener=opener)


def read_regular(path: Path, most: int = LARGEST, *, links: bool = False) -> bytes:
    """Read a regular file that is not too large; both are checked before memory is allocated."""
    with open_regular(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"{path} must have at most {most:,} bytes, but it has {size:,}")
        return file.read(size)


_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def _check_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((words for is_one, words in _KINDS if is_one(mode)), "a device")
        raise NotRegularError(f"{path} must be a regular file, but it is {kind}")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say of which file a system's complaint is: a disk that is full does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
