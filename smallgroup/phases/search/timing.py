"""How long a search will take: from the steps so far, or from a few steps that are taken to find out."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Literal

from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.schedule import Kind, Schedule

_EVALUATIONS = 2
"""Passes over the images of the metrics at the end of an epoch: W, the derived cell, and V where it teaches."""
FEWEST_STEPS = 10
"""A search of fewer steps finds nothing."""
_LATEST = 20
"""Steps of a kind that count: a machine may become busy, or idle."""
_PATIENCE = 5.0
"""Seconds that are spent on measuring a kind of step, if more than one is to be taken."""
_EPOCHS = 5
"""Epochs at least that a budget is shared out to: rates fall from one to the next."""


class Estimate:
    """The time left, from the time so far. Steps differ: each kind is measured, and passes are counted for the rest."""

    def __init__(self, job: SearchJob) -> None:
        self._schedule = job.schedule
        images = len(job.metrics.indices) / job.config.batch_size.train
        self._end_work = (_EVALUATIONS + job.schedule.teaches) * images
        self._last: tuple[int, float] | None = None
        self._seen: dict[Kind | Literal["end"], list[float]] = {}

    def left(self, step: int, seconds: float) -> float | None:
        """Seconds left after `step` steps and so many seconds; None before two steps were seen."""
        schedule = self._schedule
        if self._last is not None and step == self._last[0] + 1:
            self._note(step, seconds - self._last[1])
        self._last = (step, seconds)  # the first step is slower than others and not counted
        if not self._seen:
            return None
        counts: dict[Kind | Literal["end"], int] = {"end": schedule.config.epochs - step // schedule.steps_per_epoch}
        bounds = {"labellers": schedule.v_steps, "weights": schedule.still, "all": schedule.steps}
        begin = 0
        for kind, until in bounds.items():
            counts[kind] = max(0, until - max(step, begin))  # type: ignore[index]
            begin = until
        return sum(count * self._typical(kind) for kind, count in counts.items() if count)

    def _note(self, step: int, seconds: float) -> None:
        kind = self._schedule.kind(step - 1)
        if step % self._schedule.steps_per_epoch:
            self._seen.setdefault(kind, []).append(seconds)
        elif kind in self._seen:  # what an epoch leaves behind takes the rest of its last step
            self._seen.setdefault("end", []).append(max(0.0, seconds - self._typical(kind)))

    def _typical(self, kind: Kind | Literal["end"]) -> float:
        """Seconds of a step of a kind; of one that was not seen yet, in proportion to the dearest that was."""
        if kind in self._seen:
            return median(self._seen[kind][-_LATEST:])
        known = [other for other in self._seen if other != "end"]
        if not known:
            return median(self._seen["end"])
        dearest = max(known, key=self._work)
        return self._typical(dearest) * self._work(kind) / self._work(dearest)

    def _work(self, kind: Kind | Literal["end"]) -> float:
        if kind == "end":
            return self._end_work
        first = {"labellers": 0, "weights": self._schedule.v_steps, "all": self._schedule.still}
        return self._schedule.work(first[kind])


@dataclass(frozen=True)
class Cost:
    """Seconds that steps of each kind and the end of an epoch take."""

    steps: dict[Kind, float]
    end: float

    def of(self, schedule: Schedule) -> float:
        """Seconds of a whole search."""
        counts: dict[Kind, int] = {
            "labellers": schedule.v_steps,
            "weights": schedule.still - schedule.v_steps,
            "all": schedule.steps - schedule.still,
        }
        steps = sum(count * self.steps[kind] for kind, count in counts.items() if count)
        return float(steps + schedule.config.epochs * self.end)


def measure(job: SearchJob) -> Cost:
    """Take a few steps of every kind; the job cannot be used afterwards."""
    kinds: list[Kind] = ["weights", "all"]
    if job.schedule.teaches:
        kinds.insert(0, "labellers")
    found = {kind: _typical(partial(job.take, kind)) for kind in kinds}
    return Cost(found, _seconds(lambda: job.metrics.rows(0)))


def fitted(job: SearchJob, cost: Cost, seconds: float) -> tuple[int, int]:
    """Epochs and steps per epoch of the longest search that fits; a few epochs at least, if they must be shorter."""
    per_epoch = job.schedule.steps_per_epoch
    while per_epoch >= 1:
        epochs = _most(lambda n: _time(job, cost, n, per_epoch) <= seconds)  # noqa: B023 -- used at once
        if epochs >= min(_EPOCHS, job.config.epochs) and epochs * per_epoch >= FEWEST_STEPS:
            return epochs, per_epoch
        per_epoch = per_epoch * 3 // 4 if per_epoch > 1 else 0
    least = _time(job, cost, 1, FEWEST_STEPS)
    raise ValueError(
        f"a time budget must be enough for {FEWEST_STEPS} steps, about {least:.0f} s here, but it has {seconds:.0f} s"
    )


def _time(job: SearchJob, cost: Cost, epochs: int, per_epoch: int) -> float:
    config = job.config.model_copy(update={"epochs": epochs, "steps_per_epoch": per_epoch})
    return cost.of(Schedule(config, per_epoch, job.schedule.teaches))


def _most(fits: Callable[[int], bool]) -> int:
    """The largest number that fits, 0 if none; what fits grows evenly, so that halving finds it."""
    high = 1
    while fits(high) and high < 1_000_000:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _typical(take: Callable[[], object]) -> float:
    """The median time of three, or of fewer if they are long; the first is a warm-up where it is short."""
    times = [_seconds(take)]
    while len(times) < 4 and sum(times) < _PATIENCE:
        times.append(_seconds(take))
    return median(times[1:] or times)


def _seconds(take: Callable[[], object]) -> float:
    start = time.monotonic()
    take()
    return time.monotonic() - start
