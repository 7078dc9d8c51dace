"""How much memory the process has, had, and could have; and what to say when there is none left."""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def memory_in_use() -> int:
    """Return the current memory of the process in bytes."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return peak_memory()


def peak_memory() -> int:
    """Return the peak memory of the process in bytes."""
    peak = _kilobytes("/proc/self/status", "VmHWM:")
    if peak is not None:
        return peak * 1024
    # Elsewhere; on Linux it would begin with the peak of the process that started this one.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # elsewhere the system counts in kilobytes


def available_memory() -> int | None:
    """Return the free memory of the machine in bytes, if it says so."""
    free = _kilobytes("/proc/meminfo", "MemAvailable:")
    return None if free is None else free * 1024


def physical_memory() -> int | None:
    """Return the bytes of memory that the machine has, if the system says so."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def _peak_address_space() -> int:
    """Return the peak address space of the process in bytes, which RLIMIT_AS limits; 0 if not known."""
    return (_kilobytes("/proc/self/status", "VmPeak:") or 0) * 1024


def _kilobytes(path: str, name: str) -> int | None:
    """Read one line of a file of Linux; None on other systems."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(name):
                    return int(line.split()[1])
    except OSError:
        pass
    return None


class OutOfMemory(RuntimeError):
    """A step does not fit; the message says what to lower."""


class NoRoomError(MemoryError):
    """An error for a tensor that is larger than the free memory."""


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
    """Return whether an error means that memory ran out: torch says so in several ways, Python in another."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError | OutOfMemory):
        return True
    words = str(error)
    if not isinstance(error, RuntimeError):
        return False
    if any(known in words for known in ("can't allocate memory", "not enough memory", "bad_alloc")):
        return True
    # oneDNN says the same for every failure, so that what it says counts only where memory is short.
    return ("could not create a primitive" in words or "could not execute a primitive" in words) and _is_memory_short()


def _is_memory_short() -> bool:
    """Return whether the process is near the limit of its address space, or the machine has hardly any memory left."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    # The request that failed is not in the peak, and may have been large.
    if limit != resource.RLIM_INFINITY and _peak_address_space() > 0.75 * limit:
        return True
    free = available_memory()
    # With so little left, memory is the likely cause of a failure.
    return free is not None and free < 256 * 2**20


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
