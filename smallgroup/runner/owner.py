"""The owner file of a folder: it keeps out processes on other hosts, where `flock` may not reach.

Some network file systems have no `flock`, and on others it holds among the processes of one host alone. So the owner of
a folder also writes who it is into a file, and shows that it is alive by touching that file. Ages are differences of
two times of the file server's clock, so that the clocks of hosts may differ.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex

from smallgroup.runtime.files import naming, open_regular, read_regular, unfinished_in
from smallgroup.runtime.text import printable

FILE = ".owner"
BEAT = 15.0
"""Seconds between two signs of life."""
STALE = 120.0
"""Seconds without a sign of life after which the owner counts as dead. An NFS client may see a time that is a minute
old, so that this must be well over a minute."""
_LARGEST = 4_096


class InUseError(ValueError):
    """Another process works in the folder."""


class LostLockError(InUseError):
    """The process was suspended or cut off for so long that another one took the folder over."""


@dataclass(frozen=True)
class Owner:
    """A process that works in a folder."""

    host: str
    system: str
    """The same for processes that see one another: those of a boot, a host and a PID namespace."""
    pid: int
    began: str
    """When the process began: a number of a process is used again."""
    token: str
    """No two owners have the same."""

    @classmethod
    def me(cls) -> "Owner":
        """Return this process as a new owner."""
        return cls(socket.gethostname(), _system(), os.getpid(), _beginning(os.getpid()) or "", token_hex(8))

    @property
    def is_near(self) -> bool:
        """Whether this process could see it."""
        return self.system == _system()

    @property
    def lives(self) -> bool:
        """Whether a process that is near has not ended."""
        began = _beginning(self.pid)
        return began is not None and began == self.began


class Ownership:
    """The owner file of a folder while this process owns it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._me = Owner.me()
        self._seen = _clock()
        self._lost = False
        self._ended = threading.Event()

    def check(self) -> None:
        """Raise an error if the folder is not this process's any more; to be called before something is written."""
        if not self._lost and _clock() - self._seen < STALE / 2:  # nobody can have taken it over
            return
        if self._lost or not self._touch():
            raise LostLockError(
                f"a run folder is for one process at a time, but {self._path.parent} was taken over by another one "
                f"while this process showed no sign of life for {STALE:.0f} seconds"
            )

    @contextmanager
    def kept(self, *, alone: bool) -> Iterator[None]:
        """Take the folder, or raise an error that says who has it; keep it to the end of the block.

        Args:
            alone: whether `flock` says that no process that is near has it.
        """
        self._take(alone=alone)
        heart = threading.Thread(target=self._beat, daemon=True)
        heart.start()
        try:
            yield
        finally:
            self._ended.set()
            heart.join()
            with suppress(OSError):
                if self._is_mine():
                    self._path.unlink()

    def _take(self, *, alone: bool) -> None:
        for _ in range(10):
            self._seen = _clock()
            if self._create():
                return
            found = read(self._path)
            if (why := _keeps_out(self._path, found, alone=alone)) is not None:
                raise InUseError(
                    f"a run folder is for one process at a time, but {self._path.parent} is in use by {why}"
                )
            self._remove(found)
        raise InUseError(f"a run folder is for one process at a time, but {self._path.parent} is in use by others")

    def _create(self) -> bool:
        """Write the file if there is none."""
        try:
            file = open_regular(self._path, "xb")
        except FileExistsError:
            return False
        try:
            with naming(self._path), file:
                file.write((json.dumps(asdict(self._me)) + "\n").encode())
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        return True

    def _remove(self, dead: "Owner | None") -> None:
        """Remove the file of a dead owner. Several processes may try: who has moved a new one by that puts it back."""
        aside = unfinished_in(self._path.parent)
        try:
            self._path.rename(aside)
        except FileNotFoundError:
            return
        try:
            if read(aside) != dead:
                with suppress(FileExistsError):
                    os.link(aside, self._path)
        finally:
            aside.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            with suppress(OSError):  # a file server may be away for a while
                if not self._touch():
                    self._lost = True
                    return

    def _touch(self) -> bool:
        """Show a sign of life; whether the folder is still this process's."""
        before = _clock()
        if not self._is_mine():
            time.sleep(0.5)  # it may be moved and put back just now
            if not self._is_mine():
                return False
        os.utime(self._path)
        self._seen = before
        return True

    def _is_mine(self) -> bool:
        found = read(self._path)
        return found is not None and found.token == self._me.token


def read(path: Path) -> Owner | None:
    """Return who an owner file names; None if it cannot be told, as while it is written."""
    try:
        plain = json.loads(read_regular(path, _LARGEST))
        texts = (plain["host"], plain["system"], plain["began"], plain["token"])
        if not (type(plain["pid"]) is int and plain["pid"] > 0 and all(isinstance(text, str) for text in texts)):
            return None
        return Owner(plain["host"], plain["system"], plain["pid"], plain["began"], plain["token"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def is_owned(folder: Path, *, alone: bool) -> bool:
    """Return whether the folder is owned, by its owner file and the clock of this host; nothing is written."""
    path = folder / FILE
    try:
        with open_regular(path) as file:
            age = time.time() - os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError):
        return False
    found = read(path)
    if found is not None and found.is_near:
        return not alone and found.lives
    return abs(age) <= STALE


def _keeps_out(path: Path, found: Owner | None, *, alone: bool) -> str | None:
    """Say who keeps this process out of a folder; None if nobody does."""
    if found is not None and found.is_near:
        return None if alone or not found.lives else f"process {found.pid}"
    age = _age(path)
    if age is None or abs(age) > STALE:  # no sign of life is from the future
        return None
    who = "a process" if found is None else f"process {found.pid} on host {printable(found.host)[:80]}"
    return f"{who}, last seen {max(0.0, age):.0f} seconds ago; after {STALE:.0f} it counts as dead"


def _age(path: Path) -> float | None:
    """Return the seconds since a file was written, by the clock that wrote it; None if it is gone."""
    probe = unfinished_in(path.parent)
    try:
        with naming(path), probe.open("xb") as file:
            file.write(b"\n")
            file.flush()
            now = os.fstat(file.fileno()).st_mtime
        with open_regular(path) as file:  # an NFS client asks the server anew when a file is opened
            return now - os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return None
    finally:
        probe.unlink(missing_ok=True)


def _clock() -> float:
    """Return seconds of a clock that also runs while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _beginning(pid: int) -> str | None:
    """Return when a process began, in the system's own unit; None if there is no such process."""
    try:
        # Field 22 of proc(5), starttime, counted after the name, which may contain spaces and brackets.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError):
        return None
    try:  # systems without /proc
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return ""


@cache
def _system() -> str:
    def said(read: Path) -> str:
        try:
            return str(read.readlink()) if read.is_symlink() else read.read_text().strip()
        except OSError:
            return ""

    boot, namespace = said(Path("/proc/sys/kernel/random/boot_id")), said(Path("/proc/self/ns/pid"))
    return f"{boot} {namespace} {socket.gethostname()}"
