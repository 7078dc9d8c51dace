"""Processes of a run: who its children are, and who is left when it is gone. Of Linux alone, as all of this is."""

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

PATIENCE = 30.0
"""Seconds in which those who are left may save and end."""


def _all() -> Iterator[tuple[int, int, int]]:
    """Every living process: its number, that of its parent, that of its group."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:  # it ended just now
                continue
            if state != "Z":
                yield int(entry.name), int(parent), int(group)


def children(process: int) -> list[int]:
    """Who was started by a process."""
    return sorted(own for own, parent, _ in _all() if parent == process)


def left_of(process: int, folder: Path, known: Collection[int] = ()) -> list[int]:
    """Who is of the group of a process, was known as its child, or has a folder in its command line."""
    living = [(own, group) for own, _, group in _all() if own != os.getpid()]
    return [own for own, group in living if group == process or own in known or _names(own, folder)]


def _names(process: int, folder: Path) -> bool:
    try:
        return os.fsencode(folder) in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def all_gone(process: int, folder: Path, known: Collection[int] = ()) -> bool:
    """Wait until nobody is left."""
    deadline = time.monotonic() + PATIENCE
    while left_of(process, folder, known):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
