"""What a process says of its memory."""

import mmap
import subprocess
import sys

import numpy as np

from smallgroup.runtime.memory import memory_in_use, peak_memory

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
