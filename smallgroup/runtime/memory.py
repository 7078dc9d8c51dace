"""How much memory the process has, had, and could have; and what to say when there is none left."""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def memory_in_use() -> int:
    """Bytes that the process has now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return peak_memory()


def peak_memory() -> int:
    """The most bytes that the process ever had."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    # Elsewhere; on Linux it would begin with the peak of the process that started this one.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # elsewhere the system counts in kilobytes


def available_memory() -> int | None:
    """Bytes that the machine can still give, if it says so."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


class OutOfMemory(RuntimeError):
    """A step does not fit; the message says what to lower."""


class NoRoomError(MemoryError):
    """What is about to be made is larger than the memory that is free."""


def check_room(needed: int, what: str) -> None:
    """Refuse what cannot fit, before memory is asked for: some systems end the process instead of saying no."""
    free = available_memory()
    if free is not None and needed > free:
        raise NoRoomError(f"{what} would take {needed / 1e9:,.1f} GB, but {free / 1e9:,.1f} GB of memory are free")


def check_batch(images: int, channels: int, size: int, width: int) -> None:
    """Refuse a batch of which not even the images and one layer of so many channels fit.

    A layer counts as one byte per channel and pixel: it has four, but stems for large images halve height and width.
    """
    check_room(images * size**2 * (4 * channels + width), f"a batch of {images:,} images of {size}x{size} pixels")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: torch says so in two ways, Python in a third."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError | OutOfMemory):
        return True
    words = str(error)
    return isinstance(error, RuntimeError) and ("can't allocate memory" in words or "not enough memory" in words)


@contextmanager
def memory_explained(advice: str) -> Iterator[None]:
    """Say what to lower when memory runs out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        why = str(error) if isinstance(error, NoRoomError) else "memory ran out"
        told = OutOfMemory(f"{why}; {advice}")
        for note in getattr(error, "__notes__", ()):
            told.add_note(note)
        raise told from error
