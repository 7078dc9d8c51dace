"""What the bits of a result depend on beside the code: torch, processor, threads, the kernels in use, the device."""

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from smallgroup.runtime.checks import check_counts


@dataclass(frozen=True)
class Environment:
    """Where these are the same, a run that is repeated or resumed gives the same bits."""

    torch: str
    cpu: str
    threads: int
    kernels: str
    device: str = "cpu"
    """Where the tensors are; runs are made on the CPU, and those that do not say it were."""

    @staticmethod
    def current(kernels: str) -> "Environment":
        """What this process runs on."""
        return Environment(str(torch.__version__), _cpu(), torch.get_num_threads(), kernels)

    def differences(self, other: "Environment") -> list[str]:
        """A phrase for everything that differs in the other one."""
        theirs = asdict(other)
        return [
            f"{name} was {mine!r} and is {theirs[name]!r}"
            for name, mine in asdict(self).items()
            if mine != theirs[name]
        ]


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Torch on so many threads, and then as before; None: as many as it takes by itself."""
    keep_team_size()
    before = torch.get_num_threads()
    if count is not None:
        check_counts(threads=count)
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_team_size() -> None:
    """Make OpenMP start as many threads as it is asked for, also where torch was loaded with OMP_DYNAMIC=true.

    With that setting a busy machine gets fewer threads, and convolutions of oneDNN wait forever for the others.
    """
    try:
        ctypes.CDLL(None).omp_set_dynamic(0)
    except (OSError, AttributeError):  # torch has another way to start threads here
        return


def _cpu() -> str:
    """The processor's name and the instructions torch uses on it."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:  # not Linux
        pass
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"
