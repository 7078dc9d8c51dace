"""Measure what a step of every method costs, as a ratio to a step of DARTS alone.

For every method and arm the first steps of a search are taken in turns with those of DARTS alone, in CPU seconds of one
thread; the ratio is that of the sums. There are no warm-ups, but some methods have their own schedule: `moves` says
whether the architecture moved. It needs `SMALLGROUP_DATA`, as the study does.

    python results/methods/steps.py > results/methods/steps.json
"""

import json
import sys
import time
from contextlib import closing
from typing import Any

import torch

from smallgroup.config import Config, resolve
from smallgroup.jobs import make_job
from smallgroup.methods import METHODS
from smallgroup.phases.search.job import SearchJob
from smallgroup.runner.machine import machine

ARMS: dict[str, dict[str, Any]] = {
    "alone": {"learners": 1, "lambda": 0},
    "independent": {"learners": 2, "lambda": 0},
    "group": {"learners": 2},
}
WARM_UP, STEPS = 3, 20
LEFT_OUT = ("p-darts",)
"""Not for NAS-Bench-201."""


def config_of(method: str, arm: str) -> Config:
    """Return the study's setting without its warm-ups, so that every step moves everything."""
    return resolve(
        {
            "dataset": "cifar10",
            "unlabeled": "cifar100",
            "space": "nas-bench-201",
            "method": method,
            "search": {"v_warmup": 0.0, "architecture_warmup": 0.0},
            "run": {"threads": 1},
            **ARMS[arm],
        }
    )


def seconds_of(job: SearchJob) -> float:
    """Return the CPU seconds of the next step."""
    start = time.process_time()
    job.advance()
    return time.process_time() - start


def architecture_of(job: SearchJob) -> list[torch.Tensor]:
    """Return a copy of the first learner's architecture."""
    return [tensor.detach().clone() for tensor in job.group.learners[0].architecture.values()]


def ratio(method: str, arm: str) -> dict[str, Any]:
    """Return the CPU seconds of a step, those of DARTS alone measured in turns, and their ratio."""
    config, base = config_of(method, arm), config_of("darts", "alone")
    with machine(config.run), closing(make_job(config)) as job, closing(make_job(base)) as other:
        before = architecture_of(job)
        pairs = [(seconds_of(job), seconds_of(other)) for _ in range(WARM_UP + STEPS)][WARM_UP:]
        moves = any(not torch.equal(old, new) for old, new in zip(before, architecture_of(job), strict=True))
    own, theirs = (sum(column) / STEPS for column in zip(*pairs, strict=True))
    return {"seconds": own, "darts_alone": theirs, "ratio": own / theirs, "moves": moves}


def main() -> None:
    """Print the ratios of all methods as JSON."""
    methods = [name for name in sorted(METHODS) if name not in LEFT_OUT]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for method in methods:
        found[method] = {arm: ratio(method, arm) for arm in ARMS}
        print(method, {arm: round(each["ratio"], 2) for arm, each in found[method].items()}, file=sys.stderr)
    print(json.dumps({"torch": torch.__version__, "steps": STEPS, "methods": found}, indent=2))


if __name__ == "__main__":
    main()
