"""What happens when in a search: a function of the step alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from smallgroup.group.teaching import Teaching
from smallgroup.methods.decisions import Progress
from smallgroup.phases.search.config import SearchConfig

if TYPE_CHECKING:
    from smallgroup.methods import Method

StepKind = Literal["labelers", "weights", "all"]
"""What a step moves: V alone, V and W, or the architecture too."""

# Passes of one learner in a step, a backward pass counted as two forward ones: for a learner by itself and for one in a
# group that teaches. The exact mode carries tangents along, which is counted by its measured time.
_ALONE = {"weights": 3, "first-order": 6, "finite-difference": 12, "exact": 15}
_LOOK_AHEAD = 3  # the gradient of W once more, where second order comes before the step of W
_TAUGHT = {"labelers": 3, "weights": 10, "first-order": 13, "finite-difference": 34, "exact": 42}


@dataclass(frozen=True)
class Stage:
    """A part of a learner's search in which rates fall once; a method without stages has one, the whole search."""

    number: int
    first_epoch: int
    epochs: int
    steps_per_epoch: int
    v_share: float
    still_share: float

    @property
    def first(self) -> int:
        """Its first step, counted from the beginning of the search."""
        return self.first_epoch * self.steps_per_epoch

    @property
    def steps(self) -> int:
        """Return the number of steps of the stage."""
        return self.epochs * self.steps_per_epoch

    @property
    def v_steps(self) -> int:
        """Steps in which V alone is trained, at the beginning."""
        return min(round(self.v_share * self.steps), self.steps - 1)

    @property
    def still(self) -> int:
        """Return the number of steps before the architecture moves."""
        return max(self.v_steps, min(round(self.still_share * self.steps), self.steps - 1))


@dataclass(frozen=True)
class Schedule:
    """The course of one learner's search of `epochs` x `steps_per_epoch` steps."""

    config: SearchConfig
    steps_per_epoch: int
    teaches: bool
    """Whether learners have V, which may be trained first."""
    number_of_stages: int = 1
    warmup: float = 0.0
    """The method's own share of a stage before the architecture moves."""

    @property
    def steps(self) -> int:
        """Return the number of steps of the whole search."""
        return self.config.epochs * self.steps_per_epoch

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Of a like number of epochs each; where that does not come out even, later ones have one more."""
        asked = self.config.architecture_warmup
        shares = self.config.v_warmup if self.teaches else 0.0, self.warmup if asked is None else asked
        bounds = [self.config.epochs * i // self.number_of_stages for i in range(self.number_of_stages + 1)]
        return tuple(
            Stage(i, begin, end - begin, self.steps_per_epoch, *shares)
            for i, (begin, end) in enumerate(pairwise(bounds))
        )

    def stage(self, step: int) -> Stage:
        """Return the stage a step belongs to; after the last step the last one."""
        return next(stage for stage in reversed(self.stages) if stage.first <= step)

    def progress(self, step: int) -> Progress:
        """Return where the learner stands in its stage."""
        stage = self.stage(step)
        within = step - stage.first
        return Progress(
            epoch=within // self.steps_per_epoch,
            epochs=stage.epochs,
            step=within,
            steps=stage.steps,
            stage=stage.number,
            frozen=stage.still // self.steps_per_epoch,
        )

    def kind(self, step: int) -> StepKind:
        """Return what a step moves: V alone, V and W, or all."""
        stage = self.stage(step)
        within = step - stage.first
        return "labelers" if within < stage.v_steps else "weights" if within < stage.still else "all"

    def v_rate(self, step: int) -> float:
        """Return the learning rate of V: a cosine over all epochs of a stage."""
        return self._rate(step, 0)

    def w_rate(self, step: int) -> float:
        """Return the learning rate of W: a cosine over the epochs of a stage in which it is trained."""
        return self._rate(step, self.stage(step).v_steps)

    def _rate(self, step: int, start: int) -> float:
        """Return min + (lr - min) (1 + cos(pi e / E)) / 2 after e of E whole epochs: the full rate in the first.

        In the first n epochs, where n are for warming up, lr (e + 1) / n.
        """
        stage, weights = self.stage(step), self.config.weights
        done = max(0, step - stage.first - start) // self.steps_per_epoch
        if done < weights.warmup_epochs:
            return weights.lr * (done + 1) / weights.warmup_epochs
        share = done * self.steps_per_epoch / (stage.steps - start)
        return weights.min_lr + (weights.lr - weights.min_lr) * (1 + math.cos(math.pi * share)) / 2

    def architecture_rate(self, own: float, stage: int = 0) -> float:
        """Return the learning rate of A; `own` is that of the method."""
        asked = self.config.architecture
        if asked.lr is not None:
            return asked.lr
        return own if asked.travel is None else min(asked.travel / self.stages[stage].steps, asked.max_lr)

    def travel(self, own: float) -> float:
        """Return how far Adam can move a logit in the first stage: its rate times the steps in which it moves."""
        stage = self.stages[0]
        return self.architecture_rate(own) * (stage.steps - stage.still)


def schedule_of(config: SearchConfig, per_epoch: int, teaching: Teaching, method: "Method") -> Schedule:
    """Return the schedule of a learner with a method, in a group that teaches as configured."""
    if config.epochs < method.stages:
        raise ValueError(
            f"{method.name} has {method.stages} stages of an epoch at least, but search.epochs is {config.epochs}"
        )
    return Schedule(config, per_epoch, teaching.trains_v, method.stages, method.warmup)


class Stretch(NamedTuple):
    """Steps that follow one another and are of one kind, every learner in one stage."""

    kind: StepKind
    stages: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Course:
    """The schedules of all learners of a group side by side."""

    schedules: Sequence[Schedule]

    @property
    def steps(self) -> int:
        """Return the number of steps, the same for all learners."""
        return self.schedules[0].steps

    @property
    def steps_per_epoch(self) -> int:
        """Steps between two rows of metrics."""
        return self.schedules[0].steps_per_epoch

    @property
    def teaches(self) -> bool:
        """Return whether the learners have V and teach one another."""
        return self.schedules[0].teaches

    def kind(self, step: int) -> StepKind:
        """Return what a step of the group moves: V alone if all learners want that, A if one of them does.

        A learner that trains V alone beside others that do not trains W too.
        """
        kinds = {schedule.kind(step) for schedule in self.schedules}
        return "all" if "all" in kinds else "labelers" if kinds == {"labelers"} else "weights"

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """Return the stretches of the whole search, in order."""
        inner = {
            stage.first + within
            for schedule in self.schedules
            for stage in schedule.stages
            if stage.epochs
            for within in (0, stage.v_steps, stage.still)
        }
        bounds = [*sorted(inner), self.steps]
        return tuple(
            Stretch(self.kind(begin), tuple(one.stage(begin).number for one in self.schedules), begin, end)
            for begin, end in pairwise(bounds)
        )

    @property
    def labeler_steps(self) -> int:
        """Steps in which V alone is trained, and W waits."""
        return sum(one.end - one.begin for one in self.stretches if one.kind == "labelers")

    def lam(self, step: int) -> float:
        """Return lambda in a step of W: it rises to its value if the config says so, and is never 0 on the way."""
        config, first = self.schedules[0].config, self.stretches[0]
        rising = round(config.lambda_ramp * self.steps)
        # A step of W may be tried where V alone is trained, to see what it takes.
        taken = max(0, step - (first.end if first.kind == "labelers" else 0))
        return config.lam * (taken + 1) / rising if taken + 1 < rising else config.lam

    def work(self, kind: StepKind) -> int:
        """Return what a step costs one learner, in forward passes over a batch: for estimates of time."""
        config = self.schedules[0].config
        passes = (_TAUGHT if self.teaches else _ALONE)[config.hypergradient if kind == "all" else kind]
        looks_ahead = kind == "all" and config.order == "a-v-w" and config.hypergradient != "first-order"
        return passes + (_LOOK_AHEAD if looks_ahead else 0)
