"""Standard output and standard error that may be closed, full, or gone while a command runs."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class _Descriptor(io.RawIOBase):
    """Writes to an open file of the system. If `lossy`, what cannot be written is dropped; else the error names it."""

    def __init__(self, number: int, name: str, *, lossy: bool) -> None:
        self._number, self._name, self.lossy = number, name, lossy

    def writable(self) -> bool:
        """Return True: the stream is for writing alone."""
        return True

    def fileno(self) -> int:
        """Return the number that the system knows it by; it stays open."""
        return self._number

    def isatty(self) -> bool:
        """Return whether it is a terminal, as far as that can still be found out."""
        return os.isatty(self._number)

    def write(self, content: Any, /) -> int:  # noqa: ANN401 -- a buffer, which has no type before Python 3.12
        """Write as much as the system takes."""
        try:
            return os.write(self._number, content)
        except OSError as error:
            if self.lossy:
                return len(content)
            raise OSError(error.errno, error.strerror, self._name) from None


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Run a command to its end even if nobody can read what it says.

    Standard error carries progress and messages: what cannot be written there is dropped, and the command goes on.
    Standard output carries results: an error there is raised, and what is left unwritten is dropped when the command
    ends, because Python would complain about it at exit. A stream that is closed from the start is replaced.
    """
    before = sys.stdout, sys.stderr
    _open_closed()
    sys.stdout = _guarded(sys.stdout, "standard output", lossy=False)
    sys.stderr = _guarded(sys.stderr, "standard error", lossy=True)
    mine = sys.stdout, sys.stderr
    try:
        yield
    finally:
        for stream, was in zip(mine, before, strict=True):
            raw = getattr(getattr(stream, "buffer", None), "raw", None)
            if isinstance(raw, _Descriptor):
                raw.lossy = True
                stream.flush()
            if was is None:
                stream.close()
        sys.stdout, sys.stderr = before


def _guarded(stream: TextIO | None, name: str, *, lossy: bool) -> TextIO:
    """Return the same stream with our own writing below it; a stream that is no file of the system stays as it is."""
    if stream is None:  # closed before Python started
        return open(os.devnull, "w", encoding="utf-8")
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):  # a stand-in, such as that of a notebook
        return stream
    buffer = io.BufferedWriter(_Descriptor(number, name, lossy=lossy))
    by_line = lossy or stream.isatty()
    return io.TextIOWrapper(buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=by_line)


def _open_closed() -> None:
    """Occupy descriptors 0 to 2: else the next file that is opened, such as a checkpoint, gets what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
