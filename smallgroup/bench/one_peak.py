"""A few steps of one contender, in a process that does nothing else: `python -m smallgroup.bench.one_peak JSON`.

Prints how far the memory of the process rose above what it was before the first step.
"""

import contextlib
import gc
import sys
from pathlib import Path

import torch

from smallgroup.bench.cases import prepared
from smallgroup.bench.child import read_asked, say
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.paths import PLAIN
from smallgroup.runtime.allocator import keep_memory
from smallgroup.runtime.memory import memory_in_use, peak_memory

_STATUS = Path("/proc/self/status")


def main(text: str) -> None:
    """Read what to do, do it, print the bytes."""
    asked = read_asked(text)
    keep_memory()
    torch.set_num_threads(asked["threads"])
    case, path = GroupStep(**asked["case"]), asked["path"]
    call = prepared(case.plain if path == PLAIN else case.fast, path)
    gc.collect()
    before = memory_in_use()
    _forget_peak()
    for _ in range(asked["steps"]):
        call()
    say({"bytes": _peak() - before})


def _forget_peak() -> None:
    """Reset the peak where the system can do that; elsewhere the peak may be that of importing torch."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> int:
    """Return the peak memory of this process in bytes; on Linux getrusage may give that of the parent process."""
    try:
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return peak_memory()


if __name__ == "__main__":
    main(sys.argv[1])
