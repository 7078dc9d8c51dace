"""A few steps of one contender, in a process that does nothing else: `python -m smallgroup.bench.one_peak JSON`.

Prints how far the memory of the process, or of its tensors on a CUDA device, rose above what it was before the first
step.
"""

import contextlib
import gc
import sys
from pathlib import Path

import torch

from smallgroup.bench.cases import prepared
from smallgroup.bench.child import read_asked, say
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.machine import measuring_on
from smallgroup.bench.paths import PLAIN
from smallgroup.runtime.allocator import keep_memory
from smallgroup.runtime.device import memory_held, peak_memory_on
from smallgroup.runtime.memory import memory_in_use, peak_memory

_STATUS = Path("/proc/self/status")


def main(text: str) -> None:
    """Read what to do, do it, print the bytes."""
    asked = read_asked(text)
    keep_memory()
    torch.set_num_threads(asked["threads"])
    case, path, where = GroupStep(**asked["case"]), asked["path"], torch.device(asked["device"])
    with measuring_on(where):
        call = prepared(case.plain if path == PLAIN else case.fast, path)
        gc.collect()
        before = memory_in_use() if where.type == "cpu" else memory_held(where)
        _forget_peak(where)
        for _ in range(asked["steps"]):
            call()
        say({"bytes": _peak(where) - before})


def _forget_peak(where: torch.device) -> None:
    """Reset the peak where the system can do that; elsewhere the peak may be that of importing torch."""
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak(where: torch.device) -> int:
    """Return the peak memory of this process, or of its tensors on CUDA; getrusage may give that of the parent."""
    on_device = peak_memory_on(where)
    if on_device is not None:
        return on_device
    try:
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return peak_memory()


if __name__ == "__main__":
    main(sys.argv[1])
