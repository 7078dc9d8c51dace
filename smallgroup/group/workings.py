"""All that an iteration works with: the problem, what was found, and the checks in between."""

from collections.abc import Callable, Sequence

from torch import Tensor

from smallgroup.group.batches import Batches
from smallgroup.group.checks import Checks
from smallgroup.group.found import Found
from smallgroup.group.optimizers import Move
from smallgroup.group.problem import ConstantWeights, Problem, Setting
from smallgroup.group.tensors import Vector

Mover = Callable[[int, Vector[Tensor | None]], Move]
"""Takes the weights of learner k one step along a gradient: committed in place, or only computed."""


class Workings:
    """One iteration: `problem` computes, `checks` decides what can be used, `found` keeps it."""

    def __init__(
        self,
        setting: Setting,
        standing: Sequence[ConstantWeights],
        batches: Batches,
        move_v: Mover,
        move_w: Mover,
        *,
        step: int,
    ) -> None:
        self.everyone = range(len(setting.learners))
        self.teaching, self.product, self.label_path = setting.teaching, setting.product, setting.label_path
        self.move_v, self.move_w, self.step = move_v, move_w, step
        self.found = Found(setting.learners)
        self.problem = Problem(setting, standing, batches, self.found)
        self.checks = Checks(setting, self.found, step)
