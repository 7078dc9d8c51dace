"""What happens when in a search: a function of the step alone."""

import math
from dataclasses import dataclass
from typing import Literal

from smallgroup.phases.search.config import SearchConfig

Kind = Literal["labellers", "weights", "all"]
"""What a step moves: V alone, V and W, or the architecture too."""

# Passes of one learner in a step, a backward pass counted as two forward ones: for a learner by itself and for one in a
# group that teaches. The exact mode carries tangents along, which is counted by its measured time.
_ALONE = {"weights": 3, "first-order": 6, "finite-difference": 12, "exact": 15}
_TAUGHT = {"labellers": 3, "weights": 10, "first-order": 13, "finite-difference": 34, "exact": 42}


@dataclass(frozen=True)
class Schedule:
    """The course of a search of `epochs` x `steps_per_epoch` steps."""

    config: SearchConfig
    steps_per_epoch: int
    teaches: bool
    """Whether learners have V, which may be trained first."""

    @property
    def steps(self) -> int:
        """In all."""
        return self.config.epochs * self.steps_per_epoch

    @property
    def v_steps(self) -> int:
        """Steps in which V alone is trained, at the beginning."""
        return min(round(self.config.v_warmup * self.steps), self.steps - 1) if self.teaches else 0

    @property
    def still(self) -> int:
        """Steps before the architecture moves."""
        return max(self.v_steps, min(round(self.config.architecture_warmup * self.steps), self.steps - 1))

    def epoch(self, step: int) -> int:
        """The epoch a step belongs to; after the last step the last one."""
        return min(step // self.steps_per_epoch, self.config.epochs - 1)

    def kind(self, step: int) -> Kind:
        """What a step moves."""
        return "labellers" if step < self.v_steps else "weights" if step < self.still else "all"

    def v_rate(self, step: int) -> float:
        """The learning rate of V: a cosine over all epochs."""
        return self._rate(step, 0)

    def w_rate(self, step: int) -> float:
        """The learning rate of W: a cosine over the epochs in which it is trained."""
        return self._rate(step, self.v_steps)

    def _rate(self, step: int, start: int) -> float:
        """min + (lr - min) (1 + cos(pi e / E)) / 2 after e of E whole epochs: the full rate in the first."""
        weights, done = self.config.weights, max(0, step - start) // self.steps_per_epoch
        share = done * self.steps_per_epoch / (self.steps - start)
        return weights.min_lr + (weights.lr - weights.min_lr) * (1 + math.cos(math.pi * share)) / 2

    def architecture_rate(self, own: float) -> float:
        """The learning rate of A; `own` is that of the method."""
        asked = self.config.architecture
        if asked.lr is not None:
            return asked.lr
        return own if asked.travel is None else min(asked.travel / self.steps, asked.max_lr)

    def travel(self, own: float) -> float:
        """How far Adam can move a logit: its rate times the steps in which it moves."""
        return self.architecture_rate(own) * (self.steps - self.still)

    def work(self, step: int) -> int:
        """What a step costs one learner, in forward passes over a batch: for estimates of time."""
        kind, order = self.kind(step), self.config.order
        mode = self.config.hypergradient if order == "v-w-a" else "first-order"
        return (_TAUGHT if self.teaches else _ALONE)[mode if kind == "all" else kind]
