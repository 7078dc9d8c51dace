"""How long a search will take: from the steps so far, or from a few steps that are taken to find out."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from typing import Literal

from smallgroup.phases.evaluate import BATCH
from smallgroup.phases.passes import FORWARD, PassTime, pass_time, typical_time
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.search.schedule import Course, StepKind

_EVALUATIONS = 2
"""Passes over the images of the metrics at the end of an epoch: W, the derived cell, and V where it teaches."""
FEWEST_STEPS = 10
"""A search of fewer steps finds nothing."""
_LATEST = 20
"""Steps of a kind that count: a machine may become busy, or idle."""
_EPOCHS = 5
"""Epochs at least that a budget is shared out to: rates fall from one to the next."""


Part = tuple[StepKind | Literal["end"], tuple[int, ...]]
"""Steps of a kind, or ends of epochs, while every learner is in one of its stages."""


class Estimate:
    """The time left, from the time so far. Steps differ: each kind is measured, and passes are counted for the rest.

    A stage that has not begun is taken to cost what the last one does.
    """

    def __init__(self, job: SearchJob) -> None:
        self._course = job.course
        images = len(job.metrics.indices) / job.config.batch_size.train
        self._end_work = (_EVALUATIONS + job.course.teaches) * images
        self._last: tuple[int, float] | None = None
        self._seen: dict[Part, list[float]] = {}

    def left(self, step: int, seconds: float) -> float | None:
        """Return the seconds left after `step` steps and so many seconds; None before two steps were seen."""
        if self._last is not None and step == self._last[0] + 1:
            self._note(step, seconds - self._last[1])
        self._last = (step, seconds)  # the first step is slower than others and not counted
        if not self._seen:
            return None
        return sum(count * self._typical(part) for part, count in parts(self._course, step).items())

    def _note(self, step: int, seconds: float) -> None:
        stretch = next(one for one in self._course.stretches if step <= one.end)
        part: Part = (stretch.kind, stretch.stages)
        if step % self._course.steps_per_epoch:
            self._seen.setdefault(part, []).append(seconds)
        elif part in self._seen:  # what an epoch leaves behind takes the rest of its last step
            rest = max(0.0, seconds - self._typical(part))
            self._seen.setdefault(("end", stretch.stages), []).append(rest)

    def _typical(self, part: Part) -> float:
        """Return the seconds of a step; a kind not seen yet scales with the dearest kind of the last stages."""
        if part in self._seen:
            return median(self._seen[part][-_LATEST:])
        latest = max(stages for _, stages in self._seen)
        if part[1] != latest and (part[0], latest) in self._seen:
            return self._typical((part[0], latest))
        known = [other for other in self._seen if other[0] != "end" and other[1] == latest]
        dearest = max(known or list(self._seen), key=self._work)
        return self._typical(dearest) * self._work(part) / self._work(dearest)

    def _work(self, part: Part) -> float:
        return self._end_work if part[0] == "end" else self._course.work(part[0])


def parts(course: Course, step: int = 0) -> dict[Part, int]:
    """Return how many steps of each kind, and ends of epochs, each stage has from a step on."""
    result: dict[Part, int] = {}
    for kind, stages, first, end in course.stretches:
        begin = max(first, step)
        if begin < end:
            ends = end // course.steps_per_epoch - begin // course.steps_per_epoch
            result[kind, stages] = result.get((kind, stages), 0) + end - begin
            result["end", stages] = result.get(("end", stages), 0) + ends
    return {part: count for part, count in result.items() if count}


@dataclass(frozen=True)
class StepTimes:
    """Seconds that steps of each kind and the end of an epoch take, in each stage."""

    seconds: dict[Part, float]

    def of(self, course: Course) -> float:
        """Return the seconds of a whole search; where unmeasured stages meet, the dearest counts."""
        return sum(count * self._typical(part) for part, count in parts(course).items())

    def _typical(self, part: Part) -> float:
        found = self.seconds.get(part)
        return max(s for (kind, _), s in self.seconds.items() if kind == part[0]) if found is None else found


def measure(job: SearchJob, clock: Callable[[], float] = time.monotonic) -> StepTimes:
    """Take a few steps of every kind in every stage; the job cannot be used afterwards."""
    kinds: list[StepKind] = ["weights", "all"]
    if job.course.teaches:
        kinds.insert(0, "labelers")
    found: dict[Part, float] = {}
    stretches = job.course.stretches
    for stages in dict.fromkeys(one.stages for one in stretches):
        for kind in kinds:
            found[kind, stages] = typical_time(partial(job.take, kind), clock)
        start = clock()
        rows = job.metrics.rows(0)
        found["end", stages] = clock() - start
        job.decide(max(one.end for one in stretches if one.stages == stages) - 1, rows)
    return StepTimes(found)


def pass_time_of(searcher: Searcher) -> PassTime:
    """Measure a learner in its present stage: seconds of a pass with its way back, by the number of images."""
    learner, relaxed = searcher.learner, searcher.relaxed
    weights = {name: tensor.detach().requires_grad_() for name, tensor in learner.w.items()}
    image = next(iter(weights.values())).detach().new_zeros(relaxed.space.images.shape)
    return pass_time(lambda x: relaxed(weights, learner.architecture, x), list(weights.values()), image)


def reckoned(job: SearchJob, measured: Callable[[Searcher], PassTime] = pass_time_of) -> float:
    """Estimate the seconds of a whole search from passes of a few images; the job cannot be used afterwards.

    A rough number. In later stages the network has the operations that an untrained architecture keeps.
    """
    sizes, course = job.config.batch_size, job.course
    taught = (sizes.unlabeled,) if job.group.setting.teaching.active else ()
    batch = fmean((sizes.train, sizes.validation, *taught))
    counts = parts(course)
    all_stages = list(dict.fromkeys(one.stages for one in course.stretches))
    passes = 0.0
    for stages in all_stages:
        lines = [measured(searcher) for searcher in job.searchers]
        step, image = sum(line(batch) for line in lines), sum(line(BATCH) for line in lines) / BATCH
        at_end = (_EVALUATIONS + course.teaches) * len(job.metrics.indices) * image
        for (kind, own), count in counts.items():
            if own == stages:
                passes += count * (at_end if kind == "end" else course.work(kind) * step)
        if stages != all_stages[-1]:
            last = max(one.end for one in course.stretches if one.stages == stages) - 1
            job.decide(last, [{} for _ in job.searchers])
    return FORWARD * (passes + len(job.data.splits.validation) * image)


def fitted(job: SearchJob, cost: StepTimes, seconds: float) -> tuple[int, int]:
    """Return epochs and steps per epoch of the longest search that fits; shortened epochs are at least a few."""
    per_epoch = job.course.steps_per_epoch
    fewest = max(min(_EPOCHS, job.config.epochs), *(one.number_of_stages for one in job.course.schedules))
    too_long: list[tuple[float, int, int]] = []
    while per_epoch >= 1:
        needed = max(fewest, -(-FEWEST_STEPS // per_epoch))
        epochs = _most(lambda n: _time(job, cost, n, per_epoch) <= seconds)  # noqa: B023 -- used at once
        if epochs >= needed:
            return epochs, per_epoch
        too_long.append((_time(job, cost, needed, per_epoch), needed, per_epoch))
        per_epoch = per_epoch * 3 // 4 if per_epoch > 1 else 0
    least, epochs, steps = min(too_long)
    raise ValueError(
        f"a time budget must be enough for the shortest search, {epochs} epochs of {steps} steps, about {least:.1f} s "
        f"here, but {max(0.0, seconds):.1f} s of it are left after measuring the steps"
    )


def _time(job: SearchJob, cost: StepTimes, epochs: int, per_epoch: int) -> float:
    config = job.config.model_copy(update={"epochs": epochs, "steps_per_epoch": per_epoch})
    schedules = [replace(one, config=config, steps_per_epoch=per_epoch) for one in job.course.schedules]
    return cost.of(Course(schedules))


def _most(fits: Callable[[int], bool]) -> int:
    """Return the largest number that fits, 0 if none, by bisection."""
    high = 1
    # A step that takes no time would fit for ever.
    while fits(high) and high < 1_000_000:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
