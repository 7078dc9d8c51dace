"""What a table can show of a run: a number per learner, or one of the run."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from smallgroup.config import Config
from smallgroup.phases.search.schedule import Course, schedule_of
from smallgroup.phases.training.place import HELD_OUT
from smallgroup.spaces.genotypes import from_plain
from smallgroup.spaces.ground_truth import caveat_of

if TYPE_CHECKING:
    from smallgroup.phases.training import TrainResult
    from smallgroup.study.outcome import Outcome


@dataclass(frozen=True)
class Measure:
    """A column of a table. A function is None, or returns None, where a run has no such number."""

    title: str
    phase: Literal["search", "train"]
    larger_is_better: bool | None
    """Which direction is better; None: neither."""
    of_learner: "Callable[[Outcome, int], float | None] | None" = None
    """The value by learner; otherwise `of_training`, else `of_run`."""
    of_answer: "Callable[[Outcome], float | None] | None" = None
    """The value of the answered cell, which need not be a learner's; None: that of the retained learner."""
    of_training: "Callable[[TrainResult], float | None] | None" = None
    of_run: "Callable[[Outcome], float | None] | None" = None
    digits: int = 2
    some_lack_it: bool = False
    """Whether a learner may have none by nature; then the mean of all learners is that of those that have one."""

    def value(self, outcome: "Outcome", take: str) -> float | None:
        """Return the measure of the answer, of the first learner, or the mean of all."""
        if self.of_training is not None:
            return _mean(self.each_training(outcome))
        if self.of_run is not None:
            # What all learners cost together is not what the first of them cost.
            return None if take == "first" and outcome.search.learners > 1 else _finite(self.of_run(outcome))
        assert self.of_learner is not None
        if take == "mean":
            values = [self.of_learner(outcome, k) for k in range(outcome.search.learners)]
            return _mean([value for value in values if value is not None] if self.some_lack_it else values)
        if take == "first":
            return _finite(self.of_learner(outcome, 0))
        if self.of_answer is not None:
            return _finite(self.of_answer(outcome))
        return _finite(self.of_learner(outcome, outcome.search.retained))

    def each_training(self, outcome: "Outcome") -> list[float | None]:
        """Return the measure of every training of the cell."""
        return [] if self.of_training is None else [self.of_training(training) for training in outcome.trainings]


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of numbers, or None if one is missing."""
    known = [value for value in values if value is not None]
    return _finite(fmean(known)) if known and len(known) == len(values) else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _truth(name: str, column: str | None = None) -> "Callable[[Outcome, int], float | None]":
    """Return a reader of a column of the table by learner; None means the dataset that was searched on."""

    def value(outcome: "Outcome", k: int) -> float | None:
        known: Mapping[str, float | None] | None = getattr(outcome.search.group[k], name)
        return None if known is None else known.get(column or outcome.search.dataset)

    return value


def _truth_of_answer(name: str, column: str | None = None) -> "Callable[[Outcome], float | None]":
    def value(outcome: "Outcome") -> float | None:
        known: Mapping[str, float | None] | None = getattr(outcome.search, name)
        return None if known is None else known.get(column or outcome.search.dataset)

    return value


def _truth_of_retained(name: str) -> "Callable[[Outcome], float | None]":
    """Return a reader for the cell of the retained learner, by whatever rule the search answers."""
    of_learner = _truth(name)
    return lambda outcome: of_learner(outcome, outcome.search.retained)


def _truth_of_consensus(name: str) -> "Callable[[Outcome], float | None]":
    of_answer = _truth_of_answer(name)
    return lambda outcome: of_answer(outcome) if outcome.search.answer.rule == "consensus" else None


def _learners_without_peers(outcome: "Outcome") -> float:
    """Return how many learners have the one cell that no other is as costly as."""
    of_learner = _truth("percentile_at_cost")
    return float(sum(of_learner(outcome, k) is None for k in range(outcome.search.learners)))


def _score_correlation(outcome: "Outcome", k: int) -> float | None:
    from smallgroup.study.truth import truth_for  # noqa: PLC0415 -- it loads torch

    truth = truth_for(outcome.config)
    try:
        return truth.score_correlation(outcome.scores[k], outcome.search.dataset)
    except (IndexError, KeyError, TypeError, ValueError):  # not there, or with operations that were removed
        return None


def _passes(outcome: "Outcome") -> float | None:
    """Return the passes of all learners and steps; None if they would leave out an earlier search for labelers."""
    if outcome.labelers is not None:
        return None
    search = outcome.config.search
    per_epoch = search.steps_per_epoch or outcome.search.steps // search.epochs
    return count_passes(outcome.config, per_epoch) / 1_000


def count_passes(config: Config, steps_per_epoch: int) -> int:
    """Return what a search costs in forward passes over a batch, a backward pass counted as two."""
    methods = [config.build_method(learner) for learner in config.learners]
    course = Course([schedule_of(config.search, steps_per_epoch, config.teaching, method) for method in methods])
    return len(methods) * sum((part.end - part.begin) * course.work(part.kind) for part in course.stretches)


def _skips(outcome: "Outcome", k: int) -> float:
    spaces = outcome.search.space.split("+")
    genotype = from_plain(spaces[k if len(spaces) > 1 else 0], outcome.search.group[k].genotype)
    return float(genotype.skips)


def _skips_of_answer(outcome: "Outcome") -> float:
    return float(from_plain(outcome.search.answer_space, outcome.search.genotype).skips)


def _error_on(images: Literal["held-out", "test"], name: str) -> "Callable[[TrainResult], float | None]":
    """Return a reader of the error on test or on held-out images; a training measures one of them."""

    def value(training: "TrainResult") -> float | None:
        error: float | None = getattr(training, name)
        return error if (training.test_set == HELD_OUT) == (images == "held-out") else None

    return value


def _predicted(name: str, known: object) -> float | None:
    """Return the number of the first column that is a prediction."""
    columns: Mapping[str, float | None] = getattr(known, name) or {}
    return next((value for column, value in columns.items() if caveat_of(column) is not None), None)


def _prediction(title: str, name: str, *, digits: int = 1) -> Measure:
    """Return a measure of cells that a surrogate predicts."""
    return Measure(
        title,
        "search",
        True,
        lambda outcome, k: _predicted(name, outcome.search.group[k]),
        lambda outcome: _predicted(name, outcome.search),
        digits=digits,
        some_lack_it=True,
    )


OTHER_COLUMN = "cifar100"
"""The column of the table beside that of CIFAR-10, which most searches are made on."""
OF_CONSENSUS = {"consensus_percentile", "consensus_percentile_at_cost"}
"""Those of searches that answer by consensus."""
OF_SCORES = "score_correlation"
ON_OTHER_COLUMN = {f"{OTHER_COLUMN}_percentile", f"{OTHER_COLUMN}_percentile_at_cost"}
TRUE = {
    "percentile",
    "percentile_at_cost",
    "true_accuracy",
    "retained_percentile",
    "retained_percentile_at_cost",
    "learners_without_peers",
    OF_SCORES,
    *OF_CONSENSUS,
    *ON_OTHER_COLUMN,
}
"""Measures that are looked up in a table of accuracies."""
PREDICTED = {"predicted_accuracy", "predicted_percentile"}
"""Measures that a surrogate predicts instead of looking them up."""
ON_HELD_OUT = {"supernet_held_out_error", "held_out_error"}
"""Measures of images that are not trained on."""
ON_TEST_IMAGES = {"test_error", "test_error_top5"}


def _looked_up(title: str, name: str, column: str | None = None, *, digits: int = 1) -> Measure:
    """Return a measure of cells in a column of the table."""
    of_learner, of_answer = _truth(name, column), _truth_of_answer(name, column)
    lacking = name == "percentile_at_cost"
    return Measure(title, "search", True, of_learner, of_answer, digits=digits, some_lack_it=lacking)


_AT_COST = "percentile among cells of the same cost"
MEASURES: dict[str, Measure] = {
    "percentile": _looked_up("percentile", "percentile"),
    "percentile_at_cost": _looked_up(_AT_COST, "percentile_at_cost"),
    "true_accuracy": _looked_up("true accuracy, %", "true_accuracy", digits=2),
    f"{OTHER_COLUMN}_percentile": _looked_up(f"percentile on {OTHER_COLUMN}", "percentile", OTHER_COLUMN),
    f"{OTHER_COLUMN}_percentile_at_cost": _looked_up(
        f"{_AT_COST} on {OTHER_COLUMN}", "percentile_at_cost", OTHER_COLUMN
    ),
    "retained_percentile": Measure(
        "percentile, retained", "search", True, of_run=_truth_of_retained("percentile"), digits=1
    ),
    "retained_percentile_at_cost": Measure(
        f"{_AT_COST}, retained",
        "search",
        True,
        of_run=_truth_of_retained("percentile_at_cost"),
        digits=1,
    ),
    "consensus_percentile": Measure(
        "percentile, consensus", "search", True, of_run=_truth_of_consensus("percentile"), digits=1
    ),
    "consensus_percentile_at_cost": Measure(
        f"{_AT_COST}, consensus",
        "search",
        True,
        of_run=_truth_of_consensus("percentile_at_cost"),
        digits=1,
    ),
    "learners_without_peers": Measure(
        "learners without cells of the same cost", "search", None, of_run=_learners_without_peers
    ),
    OF_SCORES: Measure("correlation of scores with true effects", "search", True, _score_correlation),
    "predicted_percentile": _prediction("predicted percentile", "percentile"),
    "predicted_accuracy": _prediction("predicted accuracy, %", "true_accuracy", digits=2),
    "validation_error": Measure(
        "validation error, %", "search", False, lambda outcome, k: outcome.search.group[k].validation_error
    ),
    "validation_loss": Measure(
        "validation loss", "search", False, lambda outcome, k: outcome.search.group[k].validation_loss, digits=3
    ),
    "supernet_held_out_error": Measure(
        "held-out error of W, %", "search", False, lambda outcome, k: outcome.search.group[k].held_out_error
    ),
    "skips": Measure("skips", "search", None, _skips, of_answer=_skips_of_answer, digits=1),
    "seconds": Measure("seconds", "search", None, of_run=lambda outcome: outcome.seconds, digits=0),
    "passes": Measure("passes, thousands", "search", None, of_run=_passes, digits=1),
    "search_days": Measure(
        "search cost, device-days", "search", None, of_run=lambda outcome: outcome.seconds / 86_400, digits=3
    ),
    "test_error": Measure("test error, %", "train", False, of_training=_error_on("test", "test_error")),
    "held_out_error": Measure("held-out error, %", "train", False, of_training=_error_on("held-out", "test_error")),
    "test_error_top5": Measure("top-5 error, %", "train", False, of_training=_error_on("test", "test_error_top5")),
    "parameters": Measure("parameters, M", "train", None, of_training=lambda training: training.parameters / 1e6),
    "multiply_adds": Measure(
        "multiply-adds, M", "train", None, of_training=lambda training: training.multiply_adds / 1e6, digits=0
    ),
}
