"""The relative error of every term against the unrolled problem: `python -m tests.group.error_table [TASK...]`."""

import sys

import torch

from tests.group import oracle
from tests.group.checks import XI, group_of, term_errors
from tests.group.tasks.cases import CASES

TERMS = ("direct", "own", "cross", "label")


def main(*tasks: str) -> None:
    """One row per task, number of learners, mode and precision; the task `all` stands for all of them."""
    print("Largest relative error over the learners, each term in units of its own norm; xi = 0.3, lambda = 1")
    print(f"{'task':<16}{'K':<3}{'mode':<20}{'dtype':<10}" + "".join(f"{term:>10}" for term in TERMS))
    for name in CASES if tasks == ("all",) else tasks or ["classification"]:
        for count in (1, 2, 3):
            for_task(name, count)


def for_task(name: str, count: int) -> None:
    case, double = CASES[name], torch.float64
    options = {"lam": 1.0, "step_v": oracle.plain(XI), "step_w": oracle.plain(XI), "written": case.written}
    expected = oracle.term_gradients(case.learners(count, double), case.batches(double, 5), **options)
    for mode in ("first-order", "exact", "finite-difference"):
        known = [
            {t: v if mode != "first-order" or t == "direct" else {n: 0 * x for n, x in v.items()} for t, v in a.items()}
            for a in expected
        ]
        for dtype in (double, torch.float32):
            group = group_of(case.learners(count, dtype), hypergradient=mode, task=case.task())
            errors = term_errors(group.architecture_gradients(*case.batches(dtype, 5), parts=True), known)
            row = [[e for (_, term), e in errors.items() if term == t] for t in TERMS]
            cells = "".join(f"{max(values):>10.1e}" if values else f"{'none':>10}" for values in row)
            print(f"{name:<16}{count:<3}{mode:<20}{str(dtype).removeprefix('torch.'):<10}{cells}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
