"""What a process says of its memory."""

import mmap
import resource
import subprocess
import sys

import numpy as np
import pytest

from smallgroup.runtime import memory
from smallgroup.runtime.memory import is_out_of_memory, memory_in_use, peak_memory

MEGABYTE = 2**20


def test_the_peak_stays_when_memory_is_given_back() -> None:
    before = memory_in_use()
    # A map of its own: an array could lie in memory that the process has kept from what it did before.
    with mmap.mmap(-1, 100 * MEGABYTE) as large:
        np.frombuffer(large, dtype=np.uint8)[:: mmap.PAGESIZE] = 1
        during = memory_in_use()
    assert during - before > 90 * MEGABYTE
    assert peak_memory() >= during - MEGABYTE


def test_the_peak_is_not_that_of_the_process_that_started_it() -> None:
    program = "from smallgroup.runtime.memory import memory_in_use, peak_memory; print(peak_memory() / memory_in_use())"
    large = np.ones(700 * MEGABYTE, dtype=np.uint8)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert large[0] == 1
    assert float(done.stdout) < 1.5


@pytest.mark.parametrize(
    "words",
    ["DefaultCPUAllocator: can't allocate memory", "not enough memory: you tried", "std::bad_alloc"],
)
def test_torch_says_in_several_ways_that_memory_ran_out(words: str) -> None:
    assert is_out_of_memory(RuntimeError(words))
    assert not is_out_of_memory(ValueError(words))


def test_a_failed_primitive_means_memory_only_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("could not create a primitive")
    monkeypatch.setattr(memory, "available_memory", lambda: 2**34)
    assert not is_out_of_memory(error)
    peak = memory._peak_address_space()
    assert peak >= peak_memory() > 0
    for factor, expected in ((1.1, True), (2.0, False)):
        limits = (int(factor * peak), resource.RLIM_INFINITY)
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        assert is_out_of_memory(error) is expected
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("another failure"))
