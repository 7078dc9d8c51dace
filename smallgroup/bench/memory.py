"""`bench memory`: what a step takes at its peak, plain against fast, each in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.paths import PLAIN

AT_MOST = {"torch": 0.7, "native": 0.6}
"""Which share of the plain step's memory each path may take, at the standard size."""
STEPS = 2
"""The first makes what optimizers keep, the second has all of it from the beginning."""


def measure(
    cases: Sequence[GroupStep], path: str, watch: Callable[[str, int, int], None] | None = None
) -> list[dict[str, Any]]:
    """A row per case, as `--json` prints them: bytes beyond those that the process had before its first step."""
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
    """Fresh, so that nothing is there already that the step needs, and nothing is kept that it does not."""
    asked = json.dumps({"case": asdict(case), "path": path, "threads": torch.get_num_threads(), "steps": STEPS})
    command = [sys.executable, "-m", "smallgroup.bench.one_peak", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with code {done.returncode}"]
        why = "the system ended it, as it does when memory runs out" if done.returncode == -9 else last[0]
        raise RuntimeError(f"the process that measures {case.name} on path {path} failed: {why}")
    return int(json.loads(done.stdout)["bytes"])
