"""Kill searches at chosen moments, resume them, and compare with searches that were left in peace: bit for bit.

    python -m smallgroup.testing.chaos --kills 100

Every search runs in a process of its own and is killed without warning (SIGKILL): in the middle of a step, of a
checkpoint or of its own start. Then it is resumed, and killed again, until it ends. What it leaves behind must be what
a search leaves that was never killed: every tensor, every line of metrics, the genotype and the result.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from smallgroup.api import search
from smallgroup.config import resolve
from smallgroup.phases.search.result import SearchResult
from smallgroup.runtime import seed_of, stream
from smallgroup.runtime.checkpoints import Checkpoints

SMALL: dict[str, Any] = {
    "data": {"labelled_fraction": 0.1},
    "space": {"name": "nas-bench-201", "channels": 2},
    "search": {
        "epochs": 2,
        "steps_per_epoch": 5,
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 8},
        "v_warmup": 0.2,
        "architecture_warmup": 0.4,
    },
    "run": {"threads": 1, "checkpoint_minutes": 0},  # a checkpoint after every step
}
SEARCHES: dict[str, dict[str, Any]] = {
    "group of two": {"method": "darts", "learners": 2, "hypergradient": "first-order"},
    "through both stages": {"method": "darts", "learners": 2, "hypergradient": "finite-difference"},
    "alone": {"method": "gdas", "learners": 1, "hypergradient": "first-order"},
    "learners that differ": {
        "learners": [{"method": "fair-darts"}, {"method": "gdas"}],
        "hypergradient": "first-order",
    },
    "stages": {
        "method": "p-darts",
        "learners": 2,
        "lambda": 0.5,
        "hypergradient": "first-order",
        "space": {"name": "darts", "channels": 2, "cells": 3},
        "methods": {"p-darts": {"added": [1, 2], "dropout": [0.2, 0.4, 0.6]}},
        "search": {**SMALL["search"], "epochs": 3, "steps_per_epoch": 3},
    },
}
"""What is killed, in turn."""


@dataclass
class Report:
    """What came of it."""

    kills: int = 0
    runs: int = 0
    mismatches: list[str] = field(default_factory=list)
    killed_at: dict[int, int] = field(default_factory=dict)
    """How many kills by the step of the newest checkpoint at that moment; 0 is before the first."""


def torment(
    config: Mapping[str, Any],
    folder: Path,
    kills: int = 0,
    *,
    seed: int = 0,
    moments: Sequence[int] | None = None,
    prepare: Callable[[], None] | None = None,
) -> Report:
    """Kill and resume one search until it has survived so many kills or is over, and compare it with its like.

    `moments` are steps whose checkpoints bring a kill, one after the other, in place of random ones. `prepare` runs in
    the tormented processes alone: a way to make them wrong, and see that it is noticed.
    """
    left_in_peace, tormented = folder / "left-in-peace", folder / "tormented"
    start = time.monotonic()
    _finish(_child(config, left_in_peace, None))
    pause = (time.monotonic() - start) / (_newest(left_in_peace) + 1)
    report, generator = Report(runs=1), stream(seed, "chaos")
    while report.kills < (kills if moments is None else len(moments)):
        # Wait for a checkpoint of the next few, and then for a part of a step.
        target = _newest(tormented) + int(torch.randint(3, (), generator=generator))
        extra = float(torch.rand((), generator=generator)) * pause
        if moments is not None:
            target, extra = moments[report.kills], 0.0
        child = _child(config, tormented, prepare)
        if not _killed(child, tormented, target, extra):
            break
        report.kills += 1
        report.killed_at[_newest(tormented)] = report.killed_at.get(_newest(tormented), 0) + 1
    _finish(_child(config, tormented, prepare))
    report.mismatches += differences(left_in_peace, tormented)
    return report


def _killed(child: int, folder: Path, step: int, extra: float) -> bool:
    """Kill a process some time after it has written the checkpoint of a step; False if it ended before."""
    while _newest(folder) < step:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    time.sleep(extra)
    if os.waitpid(child, os.WNOHANG)[0]:
        return False
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _newest(folder: Path) -> int:
    """The step of the newest checkpoint; 0 if there is none."""
    return max((int(path.name) for path in (folder / "checkpoints").glob("[0-9]*")), default=0)


def differences(left: Path, right: Path) -> list[str]:
    """What two finished runs differ in, apart from the time and memory they took."""
    names = ("metrics.jsonl", "genotype.json", "config.yaml")
    found = [name for name in names if (left / name).read_bytes() != (right / name).read_bytes()]
    results = [SearchResult.read(folder) for folder in (left, right)]
    plain = [{} if result is None else result.to_dict() for result in results]
    for each in plain:
        each.pop("seconds", None)
        each.pop("peak_memory_mb", None)
    if not plain[0] or plain[0] != plain[1]:
        found.append("result.json")
    states = [Checkpoints(folder / "checkpoints").newest() for folder in (left, right)]
    tensors = [{} if state is None else state.tensors for state in states]
    if tensors[0].keys() != tensors[1].keys():
        found.append("the names of tensors")
    else:
        found += [name for name in tensors[0] if not torch.equal(tensors[0][name], tensors[1][name])]
    return found


def _child(config: Mapping[str, Any], folder: Path, prepare: Callable[[], None] | None) -> int:
    """A process that resumes the search; a copy of this one, so that it does not have to import everything again."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        if prepare is not None:
            prepare()
        search(resolve(config), out=folder, resume=True)
        code = 0
    finally:
        os._exit(code)  # nothing of the parent's is to be cleaned up here


def _finish(child: int) -> None:
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("a search that nobody killed must end, but it failed")


def main() -> int:
    """The standalone form."""
    parser = argparse.ArgumentParser(prog="python -m smallgroup.testing.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how many kills at least (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    given = parser.parse_args()
    torch.set_num_threads(1)
    total = Report()
    while total.kills < given.kills:
        name = list(SEARCHES)[total.runs % len(SEARCHES)]
        with tempfile.TemporaryDirectory() as folder:
            config = {**SMALL, **SEARCHES[name], "seed": total.runs}
            report = torment(config, Path(folder), given.kills - total.kills, seed=seed_of(given.seed, total.runs))
        total.kills, total.runs = total.kills + report.kills, total.runs + 1
        total.mismatches += [f"{name}: {what}" for what in report.mismatches]
        print(
            f"{name}: {report.kills} kills at checkpoints {report.killed_at}, {len(report.mismatches)} mismatches",
            flush=True,
        )
    print(f"{total.kills} kills in {total.runs} searches, {len(total.mismatches)} mismatches")
    for mismatch in total.mismatches:
        print(f"  {mismatch}")
    return 1 if total.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
