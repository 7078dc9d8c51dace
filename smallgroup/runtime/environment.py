"""What the bits of a result depend on beside the config: versions, processor, threads, kernels, device, rounding."""

import ctypes
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import PIL
import torch

from smallgroup.runtime.checks import LONGEST, check_counts
from smallgroup.version import __version__

SUMMARY = ("torch", "cpu", "threads", "kernels", "device")
"""What the config of a run says of its environment; checkpoints have all of it."""
DECIDING = ("smallgroup", "Pillow")
"""Packages of which another version is refused: one computes, one decodes images. NumPy passes integers on."""
MOST_CAUSES = 5
"""How many of the other differences a sentence names."""
VARIABLES = ("OMP_", "GOMP_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "OPENBLAS_", "GLIBC_TUNABLES")
"""How the names of the environment variables begin by which numerical libraries choose their routines."""


@dataclass(frozen=True)
class Environment:
    """An environment: where two are equal, a run that is repeated or resumed is bit-identical."""

    torch: str
    cpu: str
    threads: int
    kernels: str
    device: str = "cpu"
    """Where the tensors are, as `describe_device` says it; runs that do not say it were made on the CPU."""

    canary: Mapping[str, str] = field(default_factory=dict)
    """Hashes of fixed computations by name; empty where none were made, as by earlier versions."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of packages other than torch."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of numerical libraries, to explain what the canary shows."""
    ranks: int = 1
    """Over how many processes the batches of a training were divided."""

    @staticmethod
    def current(kernels: str, canary: Mapping[str, str] | None = None, device: str = "cpu") -> "Environment":
        """Describe what this process runs on."""
        versions = {"smallgroup": __version__, "numpy": numpy.__version__, "Pillow": PIL.__version__}
        variables = {name: value[:LONGEST] for name, value in os.environ.items() if name.startswith(VARIABLES)}
        own = (str(torch.__version__), _cpu(), torch.get_num_threads(), kernels)
        return Environment(*own, device=device, canary=canary or {}, versions=versions, variables=variables)

    def summary(self) -> dict[str, Any]:
        """Return what the config of a run records."""
        return {name: getattr(self, name) for name in SUMMARY} | ({"ranks": self.ranks} if self.ranks > 1 else {})

    def differences(self, other: "Environment") -> list[str]:
        """Return a phrase for everything in the other one that may change bits.

        What one of the two did not record, as earlier versions did not, is not compared.
        """
        mine, theirs = self._deciding(), other._deciding()
        found = _changes(mine, theirs, [name for name in mine if name in theirs])
        changed = [name for name, known in self.canary.items() if other.canary.get(name, known) != known]
        if changed:
            found.append(f"these computations round differently: {', '.join(changed)[: 3 * LONGEST]}")
        return found

    def causes(self, other: "Environment") -> list[str]:
        """Return a phrase for what else differs: by itself it proves nothing, but it may explain a difference."""
        if not self.versions:  # of an earlier version
            return []
        mine, theirs = ({**one.versions, **one.variables} for one in (self, other))
        return _changes(mine, theirs, sorted((mine.keys() | theirs.keys()) - set(DECIDING)))[:MOST_CAUSES]

    def shares_canary(self, other: "Environment") -> bool:
        """Return whether there is a canary computation of which both have a hash."""
        return bool(self.canary.keys() & other.canary.keys())

    def _deciding(self) -> dict[str, Any]:
        summary = {name: getattr(self, name) for name in SUMMARY}
        return summary | {name: self.versions[name] for name in DECIDING if name in self.versions}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [
        f"{name[:LONGEST]} was {_shown(before.get(name))} and is {_shown(after.get(name))}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)[:LONGEST]


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Set torch's number of threads inside the context, and restore it; None keeps torch's own choice."""
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
    """Return the processor's name and the instructions torch uses on it."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:  # not Linux
        pass
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"
