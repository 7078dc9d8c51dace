"""The three-level problem of one iteration: where the learners stand, and the objectives of the stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from smallgroup.group import objectives
from smallgroup.group.batches import Batches, Labelled
from smallgroup.group.found import Found
from smallgroup.group.hypergradients import MixedProduct
from smallgroup.group.learner import Learner, checked_logits, log_mixture
from smallgroup.group.objectives import Objective
from smallgroup.group.teaching import Teaching
from smallgroup.group.tensors import Point, Tensors, constants
from smallgroup.runtime import Phase


class Standing(NamedTuple):
    """The weights of a learner as constants, which move with them; V is empty where there is none."""

    v: Point
    w: Point

    @staticmethod
    def of(learner: Learner) -> "Standing":
        """That of a learner."""
        return Standing(Point(constants(learner.v or {})), Point(constants(learner.w)))


@dataclass(frozen=True)
class Setting:
    """What does not change from iteration to iteration."""

    learners: Sequence[Learner]
    teaching: Teaching
    product: MixedProduct | None
    """The mixed second derivative of stage 3; None is the first-order mode."""
    label_path: bool


class Problem:
    """What the stages compute, each objective as a function of (weights, architecture); it changes nothing."""

    def __init__(self, setting: Setting, standing: Sequence[Standing], batches: Batches, found: Found) -> None:
        self.learners, self.teaching = setting.learners, setting.teaching
        self._standing, self._batches, self._found = standing, batches, found

    # Where the learners stand.

    def a(self, k: int) -> Tensors:
        """A_k, which no stage changes."""
        return self.learners[k].architecture

    def v(self, k: int) -> Tensors:
        """V_k before its step."""
        return self._standing[k].v

    def w(self, k: int) -> Tensors:
        """W_k before its step."""
        return self._standing[k].w

    @property
    def u(self) -> Tensor:
        """The unlabelled inputs."""
        assert self._batches.unlabeled is not None  # checked where stage 2 needs them
        return self._batches.unlabeled

    @property
    def validates(self) -> bool:
        """Whether there is a validation batch, and with it a stage 3."""
        return self._batches.validation is not None

    # The objectives of the stages.

    def first(self, k: int) -> Objective:
        """L(V, A_k, D_tr)."""
        return self._on_labels(k, self._batches.train, "v")

    def second(self, k: int) -> dict[Phase, Objective]:
        """O_k as its one or two parts, by phase; the labels in it are constants."""
        parts: dict[Phase, Objective] = {}
        if self.teaching.human_labels:
            parts["w"] = self._on_labels(k, self._batches.train, "w")
        if self.teaching.active:
            parts["w_unlabeled"] = self._on_unlabeled(k)
        return parts

    def third(self, k: int) -> Objective:
        """L(W', A_k, D_val)."""
        assert self._batches.validation is not None  # stage 3 is run only with a validation batch
        return self._on_labels(k, self._batches.validation, "val")

    def taught(self, k: int) -> Objective:
        """lambda mean_batch sum_c p_k S_k, as a function of what makes p_k."""
        p, teaching = self._found.p, self.teaching
        # Of those it does not teach (at most itself) the sensitivity plays no part, and may be unknown.
        s = [torch.zeros_like(p_j) if s_j is None else s_j for p_j, s_j in zip(p, self._found.s, strict=True)]
        moved_labels = [p_j * s_j for p_j, s_j in zip(p, s, strict=True)]
        return objectives.of_labels(
            self.learners[k],
            self.u,
            teaching.received(k, s),
            teaching.weight,
            moved_labels=teaching.from_peers(k, moved_labels) if teaching.joint else None,
            phase=self._labelling_phase,
        )

    def _on_labels(self, k: int, batch: Labelled, phase: Phase) -> Objective:
        return objectives.on_labels(self.learners[k], batch.inputs, batch.labels, phase, highest=batch.highest)

    def _on_unlabeled(self, k: int) -> Objective:
        learner, teaching, u = self.learners[k], self.teaching, self.u
        if teaching.targets == "uniform":
            return objectives.on_uniform(learner, u, teaching.weight * teaching.mass)
        t = teaching.received(k, self._found.p)
        if teaching.joint:
            log_p = teaching.from_peers(k, self._found.log_p)
            return objectives.on_targets_jointly(learner, u, t, log_p, teaching.weight)
        return objectives.on_targets(learner, u, t, teaching.weight)

    def begin(self, k: int, phase: Phase, objective: Objective, weights: Tensors) -> None:
        """Let the learner look at the loss of a training phase where it stands."""
        weights, architecture = constants(weights), constants(self.a(k))
        self.learners[k].begin_phase(phase, architecture, lambda: objective(weights, architecture).value)

    # Labelling.

    @property
    def labels(self) -> bool:
        """Whether anybody learns from labels that a learner makes."""
        return self.teaching.active and self.teaching.targets != "uniform"

    def log_p(self, k: int) -> Tensor:
        """log softmax(f(V'_k, A_k, u)), or the labels of whoever labels in the place of V'_k."""
        source, u = self.teaching.labels_from, self.u
        with torch.no_grad():
            if not isinstance(source, str):
                return torch.log_softmax(checked_logits(source[k](u), u, f"the frozen labeller of learner {k}"), dim=1)
            weights = constants(self._found.v[k].after if source == "v" else self.w(k))
            return log_mixture(self.learners[k].log_q(weights, constants(self.a(k)), u, self._labelling_phase))

    @property
    def _labelling_phase(self) -> Phase:
        """In the joint form a learner's labels *are* its predictions, random numbers included."""
        return "w_unlabeled" if self.teaching.joint else "label"
