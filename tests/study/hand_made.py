"""Results of runs that nobody carried out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smallgroup.phases.search.answer import retained_record
from smallgroup.phases.search.result import LearnerResult, SearchResult
from smallgroup.phases.training import TrainResult
from smallgroup.phases.training.place import HELD_OUT
from smallgroup.study import Plan, Store
from smallgroup.study.plan import PlannedRun

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|skip_connect~1|+|skip_connect~0|none~1|avg_pool_3x3~2|"


def searched(errors: list[float], *, seconds: float = 60.0, **learner: Any) -> SearchResult:
    """A search whose learners have these validation errors; the best of them is retained."""
    group = [LearnerResult("darts", error / 100, error, CELL, **learner) for error in errors]
    retained = errors.index(min(errors))
    return SearchResult(
        method="darts",
        space="nas-bench-201",
        dataset="digits",
        learners=len(errors),
        lam=1.0,
        hypergradient="first-order",
        seed=1,
        steps=1,
        seconds=seconds,
        peak_memory_mb=1.0,
        retained=retained,
        answer=retained_record(retained),
        genotype=CELL,
        parameters=1,
        validation_loss=group[retained].validation_loss,
        validation_error=errors[retained],
        group=group,
        **{name: learner[name] for name in ("true_accuracy", "percentile", "percentile_at_cost") if name in learner},
    )


def trained(error: float, *, held_out: bool = False) -> TrainResult:
    """A training that ended with a test error."""
    looked_at: Any = HELD_OUT if held_out else "looked at once, after the last epoch"
    return TrainResult(
        dataset="digits",
        space="nas-bench-201",
        seed=1,
        genotype=CELL,
        parameters=1_000_000,
        multiply_adds=1_000_000,
        epochs=1,
        steps=1,
        seconds=1.0,
        peak_memory_mb=1.0,
        train_error=error,
        test_set=looked_at,
        test_error=error,
        test_error_top5=error,
        best_test_error=None,
        class_errors=None,
        confusion=None,
    )


def store_of(plan: Plan, root: Path, result: Callable[[str, PlannedRun], SearchResult | TrainResult | None]) -> Store:
    """What `result` says of every run, by the name of the first line that has it."""
    known: dict[str, SearchResult | TrainResult] = {}
    for line in plan.lines:
        for run in (run for runs in line.runs.values() for run in runs.all):
            if run.key not in known and (found := result(line.name, run)) is not None:
                known[run.key] = found
    return Store(root, known)


def by_row(errors: Mapping[str, Callable[[int], list[float]]]) -> Callable[[str, PlannedRun], SearchResult]:
    """Searches with the validation errors that a row has at a seed."""
    return lambda name, run: searched(errors[name](run.config.seed))
