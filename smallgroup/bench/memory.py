"""`bench memory`: what a step takes at its peak, plain against fast, each in a process of its own."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from smallgroup.bench.child import in_a_process
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.paths import PLAIN
from smallgroup.runtime.device import current

AT_MOST = {"torch": 0.7, "native": 0.6}
"""Which share of the plain step's memory each path may take, at the standard size."""
STEPS = 2
"""The first makes what optimizers keep, the second has all of it from the beginning."""


def measure(
    cases: Sequence[GroupStep], path: str, watch: Callable[[str, int, int], None] | None = None
) -> list[dict[str, Any]]:
    """Return a row per case, as `--json` prints them: bytes beyond those that the process had before its first step.

    On a CUDA device it is the memory of tensors there, as torch counts it.
    """
    if current().type not in ("cpu", "cuda"):
        raise ValueError(f"bench memory needs a device whose memory torch counts, cpu or cuda, but got {current()}")
    rows = []
    for number, case in enumerate(cases):
        taken = {}
        for place, way in enumerate((PLAIN, path)):
            if watch is not None:
                watch(f"{case.name}, {way}", 2 * number + place, 2 * len(cases))
            taken[way] = _in_a_process(case, way)
        plain, fast = taken[PLAIN], taken[path]
        rows.append(
            {
                "name": case.name,
                "plain_bytes": plain,
                "fast_bytes": fast,
                "ratio": fast / plain,
                "path": path,
                "at_most": AT_MOST.get(path) if case == GroupStep() else None,
                **case.sizes,
            }
        )
    return rows


def _in_a_process(case: GroupStep, path: str) -> int:
    """Measure in a fresh process, where nothing that the step needs is there yet and nothing else is kept."""
    asked = {"case": asdict(case), "path": path, "threads": torch.get_num_threads(), "steps": STEPS}
    asked["device"] = str(current())
    return int(in_a_process("smallgroup.bench.one_peak", asked, f"{case.name} on path {path}")["bytes"])
