"""What a table can show of a run: a number per learner, or one of the run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from smallgroup.phases.evaluation import TrainResult
from smallgroup.phases.evaluation.result import HELD_OUT
from smallgroup.phases.search.result import SearchResult
from smallgroup.spaces.genotypes import from_plain


@dataclass(frozen=True)
class Outcome:
    """What a run has come to."""

    search: SearchResult
    trainings: tuple[TrainResult, ...] = ()
    """Of the retained cell."""


@dataclass(frozen=True)
class Measure:
    """A column."""

    title: str
    phase: Literal["search", "train"]
    larger_is_better: bool | None
    """None: neither."""
    of_learner: Callable[[Outcome, int], float] | None = None
    """By learner; else `of_run`."""
    of_run: Callable[[Outcome], float] | None = None
    digits: int = 2

    def value(self, outcome: Outcome, take: str) -> float:
        """Of the learner that counts, or the mean of all."""
        if self.of_learner is None:
            assert self.of_run is not None
            return self.of_run(outcome)
        if take == "mean":
            return fmean(self.each(outcome))
        return self.of_learner(outcome, 0 if take == "first" else outcome.search.retained)

    def each(self, outcome: Outcome) -> list[float]:
        """Of all learners."""
        assert self.of_learner is not None
        return [self.of_learner(outcome, k) for k in range(outcome.search.learners)]


def _truth(name: str) -> Callable[[Outcome, int], float]:
    def value(outcome: Outcome, k: int) -> float:
        known: Mapping[str, float] | None = getattr(outcome.search.group[k], name)
        if known is None:
            raise ValueError(
                f"{name} needs the table of NAS-Bench-201 under the data root and a search in that space, but this run "
                "has no ground truth"
            )
        return known[outcome.search.dataset]

    return value


def _supernet_held_out(outcome: Outcome, k: int) -> float:
    error = outcome.search.group[k].held_out_error
    if error is None:
        raise ValueError("supernet_held_out_error needs data.held_out, a share of the training images nobody trains on")
    return error


def _skips(outcome: Outcome, k: int) -> float:
    spaces = outcome.search.space.split("+")
    genotype = from_plain(spaces[k if len(spaces) > 1 else 0], outcome.search.group[k].genotype)
    return float(genotype.skips)


def _held_out(outcome: Outcome) -> float:
    if any(training.test_set != HELD_OUT for training in outcome.trainings):
        raise ValueError("held_out_error needs data.held_out, a share of the training images that nobody trains on")
    return _of_trainings("test_error")(outcome)


def _of_trainings(name: str) -> Callable[[Outcome], float]:
    return lambda outcome: fmean(float(getattr(training, name)) for training in outcome.trainings)


TRUE = {"percentile", "true_accuracy"}
"""Measures that are looked up in the table of NAS-Bench-201."""
MEASURES: dict[str, Measure] = {
    "percentile": Measure("percentile", "search", True, _truth("percentile"), digits=1),
    "true_accuracy": Measure("true accuracy, %", "search", True, _truth("true_accuracy")),
    "validation_error": Measure(
        "validation error, %", "search", False, lambda outcome, k: outcome.search.group[k].validation_error
    ),
    "validation_loss": Measure(
        "validation loss", "search", False, lambda outcome, k: outcome.search.group[k].validation_loss, digits=3
    ),
    "supernet_held_out_error": Measure("held-out error of W, %", "search", False, _supernet_held_out),
    "skips": Measure("skips", "search", None, _skips, digits=1),
    "seconds": Measure("seconds", "search", None, None, lambda outcome: outcome.search.seconds, digits=0),
    "search_days": Measure(
        "search cost, device-days", "search", None, None, lambda outcome: outcome.search.seconds / 86_400, digits=3
    ),
    "test_error": Measure("test error, %", "train", False, None, _of_trainings("test_error")),
    "held_out_error": Measure("held-out error, %", "train", False, None, _held_out),
    "test_error_top5": Measure("top-5 error, %", "train", False, None, _of_trainings("test_error_top5")),
    "parameters": Measure(
        "parameters, M", "train", None, None, lambda outcome: _of_trainings("parameters")(outcome) / 1e6
    ),
    "multiply_adds": Measure(
        "multiply-adds, M", "train", None, None, lambda outcome: _of_trainings("multiply_adds")(outcome) / 1e6, digits=0
    ),
}
