"""What a table can show of a run: a number per learner, or one of the run."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.training import TrainResult
from smallgroup.phases.training.result import HELD_OUT
from smallgroup.spaces.genotypes import from_plain


@dataclass(frozen=True)
class Outcome:
    """What a run has come to."""

    search: SearchResult
    trainings: tuple[TrainResult, ...] = ()
    """Of the answer's cell."""
    labellers: SearchResult | None = None
    """The search that had to be carried out before."""

    @property
    def seconds(self) -> float:
        """What it took to find the cell."""
        return self.search.seconds + (0.0 if self.labellers is None else self.labellers.seconds)


@dataclass(frozen=True)
class Measure:
    """A column. What is None of a run cannot be said of it."""

    title: str
    phase: Literal["search", "train"]
    larger_is_better: bool | None
    """None: neither."""
    of_learner: Callable[[Outcome, int], float | None] | None = None
    """By learner; else `of_training`, else `of_run`."""
    of_answer: Callable[[Outcome], float | None] | None = None
    """Of the cell that the search answers with, which need not be a learner's; None: that of the retained learner."""
    of_training: Callable[[TrainResult], float | None] | None = None
    of_run: Callable[[Outcome], float] | None = None
    digits: int = 2

    def value(self, outcome: Outcome, take: str) -> float | None:
        """Of the answer, of the first learner, or the mean of all."""
        if self.of_training is not None:
            return _mean(self.each_training(outcome))
        if self.of_run is not None:
            # What all learners cost together is not what the first of them cost.
            return None if take == "first" and outcome.search.learners > 1 else self.of_run(outcome)
        assert self.of_learner is not None
        if take == "mean":
            return _mean([self.of_learner(outcome, k) for k in range(outcome.search.learners)])
        if take == "first":
            return _finite(self.of_learner(outcome, 0))
        if self.of_answer is not None:
            return _finite(self.of_answer(outcome))
        return _finite(self.of_learner(outcome, outcome.search.retained))

    def each_training(self, outcome: Outcome) -> list[float | None]:
        """Of every training of the cell."""
        return [] if self.of_training is None else [self.of_training(training) for training in outcome.trainings]


def _mean(values: Sequence[float | None]) -> float | None:
    """Of numbers that are all there."""
    known = [value for value in values if value is not None]
    return _finite(fmean(known)) if known and len(known) == len(values) else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _truth(name: str) -> Callable[[Outcome, int], float | None]:
    def value(outcome: Outcome, k: int) -> float | None:
        known: Mapping[str, float | None] | None = getattr(outcome.search.group[k], name)
        return None if known is None else known.get(outcome.search.dataset)

    return value


def _truth_of_answer(name: str) -> Callable[[Outcome], float | None]:
    def value(outcome: Outcome) -> float | None:
        known: Mapping[str, float] | None = getattr(outcome.search, name)
        return None if known is None else known.get(outcome.search.dataset)

    return value


def _skips(outcome: Outcome, k: int) -> float:
    spaces = outcome.search.space.split("+")
    genotype = from_plain(spaces[k if len(spaces) > 1 else 0], outcome.search.group[k].genotype)
    return float(genotype.skips)


def _skips_of_answer(outcome: Outcome) -> float:
    return float(from_plain(outcome.search.answer_space, outcome.search.genotype).skips)


def _error_on(images: Literal["held-out", "test"], name: str) -> Callable[[TrainResult], float | None]:
    """A training looks at the ones or at the others."""

    def value(training: TrainResult) -> float | None:
        error: float | None = getattr(training, name)
        return error if (training.test_set == HELD_OUT) == (images == "held-out") else None

    return value


TRUE = {"percentile", "percentile_at_cost", "true_accuracy"}
"""Measures that are looked up in a table of accuracies."""
ON_HELD_OUT = {"supernet_held_out_error", "held_out_error"}
"""Those of images that nobody trains on."""
ON_TEST_IMAGES = {"test_error", "test_error_top5"}
MEASURES: dict[str, Measure] = {
    "percentile": Measure(
        "percentile", "search", True, _truth("percentile"), of_answer=_truth_of_answer("percentile"), digits=1
    ),
    "percentile_at_cost": Measure(
        "percentile among cells of the same cost",
        "search",
        True,
        _truth("percentile_at_cost"),
        of_answer=_truth_of_answer("percentile_at_cost"),
        digits=1,
    ),
    "true_accuracy": Measure(
        "true accuracy, %", "search", True, _truth("true_accuracy"), of_answer=_truth_of_answer("true_accuracy")
    ),
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
