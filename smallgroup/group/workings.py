"""All that an iteration works with: the problem, what was found, and the checks in between."""

from collections.abc import Callable, Sequence

from torch import Tensor

from smallgroup.group.batches import Batches
from smallgroup.group.checks import Checks
from smallgroup.group.found import Found
from smallgroup.group.optimizers import Move
from smallgroup.group.problem import ConstantWeights, Problem, Setting
from smallgroup.group.report import StepReport
from smallgroup.group.tensors import Vector

Mover = Callable[[int, Vector[Tensor | None]], Move]
"""Takes the weights of learner k one step along a gradient: committed in place, or only computed."""


class Workings:
    """One iteration: `problem` computes, `checks` decides what can be used, `found` keeps it.

    `mine` are the learners that this process computes: all, unless a group is spread over several.
    """

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
        self.mine, self._exchange = setting.exchange.mine, setting.exchange
        self.teaching, self.product, self.label_path = setting.teaching, setting.product, setting.label_path
        self.move_v, self.move_w, self.step = move_v, move_w, step
        self.found = Found(setting.learners)
        self.problem = Problem(setting, standing, batches, self.found)
        self.checks = Checks(setting, self.found, step)

    def meet_over_labels(self) -> None:
        """Let everybody know p of everybody, wherever it was made; in the joint form the outputs behind it."""
        found, joint = self.found, self.teaching.joint
        shown = self._exchange.tables({k: [outputs if joint else p] for k, (outputs, p) in found.own_p.items()})
        for j, tables in enumerate(shown):
            (table,) = tables or ()
            if joint:
                found.outputs.append(table)
                table = found.own_p[j][1] if j in found.own_p else self.problem.handed_with(j, table)
            found.p.append(table)
        for j, p_j in enumerate(found.p):
            if p_j.shape != found.p[0].shape:
                raise ValueError(
                    "learners must hand over tables of one shape, "
                    f"but learner 0 hands over {tuple(found.p[0].shape)} and learner {j} {tuple(p_j.shape)}"
                )

    def meet_over_sensitivities(self) -> None:
        """Let everybody know s of everybody; of some it may not be known."""
        shown = self._exchange.tables({k: self.found.own_s.get(k) for k in self.mine})
        for j, tables in enumerate(shown):
            self.found.s[j] = None if tables is None else self.problem.sensitivity(j, tables)

    def report(self) -> StepReport:
        """Return what is left of the iteration when it is over, if all of it can be used."""
        self.checks.settle()
        return self.found.report(self.step)
