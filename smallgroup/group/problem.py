"""The three-level problem of one iteration: where the learners stand, and the objectives of the stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from smallgroup.group import objectives
from smallgroup.group.batches import Batches, Labeled
from smallgroup.group.exchange import Exchange
from smallgroup.group.found import Found, Sensitivity
from smallgroup.group.hypergradients import MixedProduct
from smallgroup.group.inputs import Inputs
from smallgroup.group.learner import Learner
from smallgroup.group.member import Member
from smallgroup.group.objectives import Gradients, Objective
from smallgroup.group.task import Task
from smallgroup.group.teaching import Teaching
from smallgroup.group.tensors import Point, Tensors, constants
from smallgroup.runtime import Phase


class ConstantWeights(NamedTuple):
    """The weights of a learner as constants, which move with them; V is empty where there is none."""

    v: Point
    w: Point

    @staticmethod
    def of(learner: Learner) -> "ConstantWeights":
        """Return the weights of a learner as constants."""
        return ConstantWeights(Point(constants(learner.v or {})), Point(constants(learner.w)))


@dataclass(frozen=True)
class Setting:
    """The settings that stay the same from iteration to iteration."""

    learners: Sequence[Learner]
    teaching: Teaching
    product: MixedProduct | None
    """The mixed second derivative of stage 3; None is the first-order mode."""
    label_path: bool
    task: Task
    exchange: Exchange

    @property
    def defers_checks(self) -> bool:
        """Whether values are tested at the end of a step and not where they arise: else a device is waited for.

        Second-order modes need norms on the way, and on the CPU nobody waits.
        """
        return self.product is None and all(learner.device.type != "cpu" for learner in self.learners)


class Problem:
    """The objectives of the stages as functions of (weights, architecture); it changes nothing."""

    def __init__(self, setting: Setting, standing: Sequence[ConstantWeights], batches: Batches, found: Found) -> None:
        self.teaching, self.task = setting.teaching, setting.task
        self.members = [Member(learner, setting.task) for learner in setting.learners]
        self._standing, self._batches, self._found = standing, batches, found

    # Where the learners stand.

    def a(self, k: int) -> Tensors:
        """Return the architecture A_k, which no stage changes."""
        return self.members[k].learner.architecture

    def v(self, k: int) -> Tensors:
        """Return the first weights V_k as they are before their step."""
        return self._standing[k].v

    def w(self, k: int) -> Tensors:
        """Return the second weights W_k as they are before their step."""
        return self._standing[k].w

    @property
    def u(self) -> Inputs:
        """The unlabeled inputs u, the same for all learners."""
        assert self._batches.unlabeled is not None  # checked where stage 2 needs them
        return self._batches.unlabeled

    @property
    def validates(self) -> bool:
        """Whether there is a validation batch, and with it a stage 3."""
        return self._batches.validation is not None

    # The objectives of the stages.

    def first(self, k: int) -> Objective:
        """Return the loss of stage 1, L(V, A_k, D_tr)."""
        return self._on_labels(k, self._batches.train, "v")

    def second(self, k: int) -> dict[Phase, Objective]:
        """Return O_k as its one or two parts, by phase; the labels in it are constants."""
        parts: dict[Phase, Objective] = {}
        if self.teaching.human_labels:
            parts["w"] = self._on_labels(k, self._batches.train, "w")
        if self.teaching.active:
            parts["w_unlabeled"] = self._on_unlabeled(k)
        return parts

    def third(self, k: int) -> Objective:
        """Return the loss of stage 3, L(W', A_k, D_val)."""
        assert self._batches.validation is not None  # stage 3 is run only with a validation batch
        return self._on_labels(k, self._batches.validation, "val")

    def taught(self, k: int) -> Objective:
        """Return lambda mean_batch sum p_k S_k, as a function of what makes p_k."""
        teaching, p = self.teaching, self._found.p
        # Of those it does not teach (at most itself) the sensitivity plays no part, and may be unknown.
        s = [{} if s_j is None else s_j.to for s_j in self._found.s]
        sensitivity = teaching.received(k, [s_j.get(k, torch.zeros_like(p_j)) for s_j, p_j in zip(s, p, strict=True)])
        known = objectives.Taught(sensitivity, self._moved(k) if teaching.joint else ())
        return objectives.of_handed(self.members[k], self.u, known, teaching.weight, phase=self._labeling_phase)

    def _moved(self, k: int) -> list[tuple[Tensor, Tensor]]:
        """Return what the peers of k hand over in the joint form, and how it changes; of a linear loss all in one."""
        pairs = [
            (p_j, torch.zeros_like(p_j) if s_j is None or s_j.change is None else s_j.change)
            for p_j, s_j in zip(self._found.p, self._found.s, strict=True)
        ]
        if self.task.linear:
            return [(self._found.p[k], self.teaching.from_peers(k, [change for _, change in pairs]))]
        return [pairs[j] for j in self.teaching.pupils_of(k)]

    def _on_labels(self, k: int, batch: Labeled, phase: Phase) -> Objective:
        return objectives.on_labels(self.members[k], batch, phase)

    def _on_unlabeled(self, k: int) -> Objective:
        member, teaching, u = self.members[k], self.teaching, self.u
        if teaching.targets == "uniform":
            return objectives.on_nothing(member, u, teaching.weight * teaching.mass)
        p, weight = self._found.p, teaching.weight
        if self.task.linear:
            handed = [teaching.received(k, p)]
        else:
            handed = [p[j] for j in teaching.teachers_of(k)]
            weight = weight * teaching.mass / len(handed)
        if teaching.joint:
            return objectives.on_handed_jointly(member, u, handed, self._peers(k), weight)
        frozen = not isinstance(teaching.labels_from, str)
        return objectives.on_handed(member, u, handed, weight, with_slopes=teaching.labels_move, by_frozen=frozen)

    def _peers(self, k: int) -> list[Tensor]:
        """Return the outputs of k's pupils in the joint form, or of a linear loss the sum of their slopes."""
        outputs = self._found.outputs
        if not self.task.linear:
            return [outputs[j] for j in self.teaching.pupils_of(k)]
        slopes = [m.slope(o_j, p_j) for m, o_j, p_j in zip(self.members, outputs, self._found.p, strict=True)]
        return [self.teaching.from_peers(k, slopes)]

    def begin(self, k: int, phase: Phase, objective: Objective, weights: Tensors) -> None:
        """Let the learner look at the loss of a training phase where it stands."""
        weights, architecture = constants(weights), constants(self.a(k))
        self.members[k].learner.begin_phase(phase, architecture, lambda: objective(weights, architecture).value)

    def is_shown(self, k: int) -> bool:
        """Return whether the learner wants the gradients of its weights."""
        return self.members[k].learner.sees_gradients

    def show(self, k: int, phase: Phase, found: Gradients) -> None:
        """Let the learner see the gradient of a loss in its weights."""
        self.members[k].learner.see_gradients(phase, found.weights)

    # Labeling.

    @property
    def labels(self) -> bool:
        """Whether anybody learns from labels that a learner makes."""
        return self.teaching.active and self.teaching.targets != "uniform"

    def hand_over(self, k: int) -> tuple[Tensor, Tensor]:
        """Return f(V'_k, A_k, u), or the outputs of whoever labels in the place of V'_k, and p_k, made of them."""
        member, source, u = self.members[k], self.teaching.labels_from, self.u
        with torch.no_grad():
            if isinstance(source, str):
                weights = constants(self._found.v[k].after if source == "v" else self.w(k))
                outputs = member.outputs(weights, constants(self.a(k)), u, self._labeling_phase)
            else:
                outputs = member.outputs_of(source[k], u, f"the frozen labeler of learner {k}")
            return outputs, member.hand_over(outputs, u)

    def handed_with(self, k: int, outputs: Tensor) -> Tensor:
        """Return p_k, made of outputs that are known."""
        with torch.no_grad():
            return self.members[k].hand_over(outputs, self.u)

    def sensitivity(self, k: int, tables: Sequence[Tensor]) -> Sensitivity:
        """Return s_k: a table per teacher or one for all, and in the joint form how p_k changes."""
        teachers, change = self.teaching.teachers_of(k), None
        if self.teaching.joint:
            change = self.members[k].handed_change(self._found.p[k], tables[0])
            change = tables[-1] if change is None else change
        of_teachers = [tables[0]] * len(teachers) if self.task.linear else tables[: len(teachers)]
        return Sensitivity(dict(zip(teachers, of_teachers, strict=True)), change)

    @property
    def _labeling_phase(self) -> Phase:
        """In the joint form a learner's labels *are* its predictions, random numbers included."""
        return "w_unlabeled" if self.teaching.joint else "label"
