"""One iteration of small-group learning: the paper's Algorithm 1, stage by stage.

Symbols and equation numbers are the paper's. x, y: labelled batch; u: unlabelled batch; x_v, y_v: validation
batch. For learner k: A_k architecture, V_k and W_k weights, p_k soft labels, t_k the labels it learns from,
s_k its sensitivity. Of other learners a learner only ever sees p and s.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smallgroup.group import objectives
from smallgroup.group.batches import Batches
from smallgroup.group.errors import NonFiniteError
from smallgroup.group.hypergradients import MixedProduct, negated, obstacle
from smallgroup.group.learner import Learner, Phase
from smallgroup.group.objectives import Gradients, Objective, gradients
from smallgroup.group.optimizers import Move
from smallgroup.group.report import TERMS, LearnerReport
from smallgroup.group.teaching import Teaching
from smallgroup.group.tensors import Tensors, filled, norm, total, zeros

Mover = Callable[[int, Mapping[str, Tensor | None]], Move]
"""Takes learner k's weights one step along a gradient: committed in place, or only computed."""


@dataclass(frozen=True)
class Setting:
    """What does not change from iteration to iteration."""

    learners: Sequence[Learner]
    teaching: Teaching
    product: MixedProduct | None
    """The mixed second derivative of stage 3; None is the first-order mode."""
    label_path: bool


class Iteration:
    """Three stages; each loops over the learners, and the activations of one learner live at a time."""

    def __init__(self, setting: Setting, batches: Batches, move_v: Mover, move_w: Mover, step: int) -> None:
        self.setting, self.batches, self.step = setting, batches, step
        self.move_v, self.move_w = move_v, move_w
        self.learners, self.teaching = setting.learners, setting.teaching
        size = len(setting.learners)
        self.v: list[Move] = []
        self.p: list[Tensor] = []
        self.w: list[Move] = []
        self.objectives: list[list[Objective]] = []
        self.s: list[Tensor | None] = [None] * size
        self.terms: list[dict[str, dict[str, Tensor]]] = [{} for _ in range(size)]
        self.losses: list[dict[str, float]] = [{} for _ in range(size)]
        self.skipped: list[dict[str, str]] = [{} for _ in range(size)]
        self.classes: dict[int, int] = {}

    def run(self) -> list[LearnerReport]:
        """Algorithm 1, lines 1 to 3. The architecture step itself is the caller's."""
        if self.teaching.trains_v:
            self.stage_1()
        self.stage_2()
        if self.batches.validation is not None:
            self.stage_3()
        return [self._report(k) for k in range(len(self.learners))]

    def stage_1(self) -> None:
        """V'_k = V_k - xi_V grad_V L(V_k, A_k, D_tr), Eq. (4): each learner on its own."""
        for k, learner in enumerate(self.learners):
            found = gradients(self._first(k), _v(learner), learner.architecture, of_weights=True)
            self._check(k, 1, "v", found)
            self.v.append(self.move_v(k, found.weights))

    def stage_2(self) -> None:
        """p_k = softmax(f(V'_k, A_k, u)), then W'_k = W_k - xi_W grad_W O_k with, Eq. (5),

        O_k(W) = L(W, A_k, D_tr) + lambda CE(f(W, A_k, u), t_k),  t_k = sum_{j != k} p_j.
        """
        self.p = self._labels()
        # Every objective is made before the first W moves: in ablation 1 it is W that labels.
        self.objectives = [self._second(k) for k in range(len(self.learners))]
        for k, learner in enumerate(self.learners):
            parts = []
            for name, objective in zip(self._second_names(), self.objectives[k], strict=True):
                found = gradients(objective, learner.w, learner.architecture, of_weights=True)
                self._check(k, 2, name, found)
                parts.append(found.weights)
            self.w.append(self.move_w(k, _sum(parts)))

    def stage_3(self) -> None:
        """The gradient of sum_j L(W'_j, A_j, D_val) in A_k, Eq. (6), in four terms."""
        for k in range(len(self.learners)):
            self._direct_and_own(k)
        if self.setting.product is not None and self.teaching.labels_move:
            for k in range(len(self.learners)):
                self._cross_and_label(k)

    def _direct_and_own(self, k: int) -> None:
        """Eq. (7): grad_A L(W'_k, A_k, D_val) - xi_W d2O_k/(dA_k dW_k) g_k,  g_k = grad_W' L(W'_k, A_k, D_val).

        The same product yields the sensitivity s_k = xi_W d/de log q_k(u; W_k + e g_k).
        """
        learner, product = self.learners[k], self.setting.product
        needed = product is not None and (bool(learner.architecture) or self.teaching.labels_move)
        found = gradients(
            self._third(k), self.w[k].after, learner.architecture, of_weights=needed, of_architecture=True
        )
        self._check(k, 3, "validation", found)
        self.terms[k]["direct"] = {name: _used(k, name, g) for name, g in found.architecture.items()}
        if product is None or not needed:
            return
        direction = self.w[k].direction(found.weights)
        if self._skips(k, direction, "own"):
            return
        second = product(self.objectives[k], self.w[k].before, direction, learner.architecture)
        if self._keeps(k, "own", negated(second)) and self.teaching.active:
            self.s[k] = second.tables[-1]

    def _cross_and_label(self, k: int) -> None:
        """What A_k does to its pupils' validation losses, through the labels p_k.

        With S_k = sum_{j != k} s_j the derivative in p_k is lambda S_k / batch; with r_k the gradient of
        lambda mean_batch sum_c p_k S_k in V'_k,

        cross = -xi_V d2L(V_k, A_k, D_tr)/(dA_k dV_k) r_k      A_k moves V'_k, Eqs. (9) to (11);
        label = grad_A lambda mean_batch sum_c p_k S_k         A_k is part of the network that labels.
        """
        learner, product = self.learners[k], self.setting.product
        given = [self.s[j] for j in self.teaching.pupils_of(k)]
        if product is None or not learner.architecture or (self.teaching.joint and not self.setting.label_path):
            return
        if all(s is None for s in given):
            self.skipped[k].update(dict.fromkeys(self._through_labels(), "no pupil has a sensitivity"))
            return
        found = gradients(
            self._teaching_value(k),
            self.w[k].before if self.teaching.joint else self.v[k].after,
            learner.architecture,
            of_weights=not self.teaching.joint,
            of_architecture=self.setting.label_path,
        )
        if self.setting.label_path:
            self._keeps(k, "label", filled(found.architecture, learner.architecture))
        if not self.teaching.joint:
            direction = self.v[k].direction(found.weights)
            if not self._skips(k, direction, "cross"):
                second = product([self._first(k)], self.v[k].before, direction, learner.architecture)
                self._keeps(k, "cross", negated(second))

    # The objectives of the three stages.

    def _first(self, k: int) -> Objective:
        return objectives.on_labels(self.learners[k], *self.batches.train, "v")

    def _second(self, k: int) -> list[Objective]:
        learner, teaching = self.learners[k], self.teaching
        parts = [objectives.on_labels(learner, *self.batches.train, "w")] if teaching.human_labels else []
        if teaching.active:
            u = self.batches.unlabeled
            if teaching.targets == "uniform":
                parts.append(objectives.on_uniform(learner, u, teaching.weight * teaching.mass))
            elif teaching.joint:
                t, log_q = teaching.targets_of(k, self.p), teaching.from_peers(k, [p.log() for p in self.p])
                parts.append(objectives.on_targets_jointly(learner, u, t, log_q, teaching.weight))
            else:
                parts.append(objectives.on_targets(learner, u, teaching.targets_of(k, self.p), teaching.weight))
        return parts

    def _second_names(self) -> list[str]:
        return ["w"] * self.teaching.human_labels + ["w_unlabeled"] * self.teaching.active

    def _third(self, k: int) -> Objective:
        assert self.batches.validation is not None
        return objectives.on_labels(self.learners[k], *self.batches.validation, "val")

    def _teaching_value(self, k: int) -> Objective:
        """lambda mean_batch sum_c p_k S_k as a function of what makes p_k."""
        s = [torch.zeros_like(p) if s is None else s for p, s in zip(self.p, self.s, strict=True)]
        joint = self.teaching.joint
        push = self.teaching.from_peers(k, [p * t for p, t in zip(self.p, s, strict=True)]) if joint else None
        return objectives.of_labels(
            self.learners[k],
            self.batches.unlabeled,
            self.teaching.sensitivity_to(k, s),
            self.teaching.weight,
            push=push,
            phase="w_unlabeled" if joint else "label",
        )

    # Labelling.

    def _labels(self) -> list[Tensor]:
        if not self.teaching.active or self.teaching.targets == "uniform":
            return []
        with torch.no_grad():
            tables = [torch.softmax(self._label_logits(k), dim=1) for k in range(len(self.learners))]
        for k, table in enumerate(tables):
            self._check_classes(k, table)
            if not bool(table.isfinite().all()):
                raise NonFiniteError(k, 2, "a soft label", self.step)
        return tables

    def _label_logits(self, k: int) -> Tensor:
        learner, u, source = self.learners[k], self.batches.unlabeled, self.teaching.labels_from
        if not isinstance(source, str):
            return source[k](u)
        if source == "v":
            return learner.logits(self.v[k].after, learner.architecture, u, "label")
        phase: Phase = "w_unlabeled" if source == "w-joint" else "label"
        return learner.logits(learner.w, learner.architecture, u, phase)

    # Checks: a loss or gradient that is not finite stops the step, a second-order term is skipped.

    def _check(self, k: int, stage: int, name: str, found: Gradients) -> None:
        self._check_classes(k, found.loss.log_q)
        loss = float(found.loss.value)
        if not math.isfinite(loss):
            raise NonFiniteError(k, stage, f"the {name} loss", self.step)
        self.losses[k][name] = loss
        reached = [g for g in found.weights.values() if g is not None]
        if stage < 3:
            if not reached:
                raise ValueError(f"the logits of learner {k} must depend on its weights, but no gradient reaches them")
            if not math.isfinite(norm(reached)):
                raise NonFiniteError(k, stage, f"the gradient of the {name} loss", self.step)
        direct = [g for g in found.architecture.values() if g is not None]
        if direct and not math.isfinite(norm(direct)):
            raise NonFiniteError(k, stage, f"the architecture gradient of the {name} loss", self.step)

    def _check_classes(self, k: int, table: Tensor) -> None:
        self.classes[k] = table.shape[1]
        for j, count in self.classes.items():
            if count != table.shape[1]:
                raise ValueError(
                    "learners must agree on the number of classes, "
                    f"but learner {j} has {count} and learner {k} has {table.shape[1]}"
                )

    def _skips(self, k: int, direction: Tensors, term: str) -> bool:
        reason = obstacle(direction)
        if reason is not None:
            self.skipped[k][term] = reason
        return reason is not None

    def _keeps(self, k: int, term: str, value: dict[str, Tensor]) -> bool:
        if value and not math.isfinite(norm(value.values())):
            self.skipped[k][term] = "the term is not finite"
            return False
        self.terms[k][term] = value
        return True

    def _through_labels(self) -> list[str]:
        return ["cross"] * (not self.teaching.joint) + ["label"] * self.setting.label_path

    def _report(self, k: int) -> LearnerReport:
        if self.batches.validation is None:
            terms = {}
        else:
            nothing = zeros(self.learners[k].architecture)
            terms = {term: self.terms[k].get(term, nothing) for term in TERMS}
        losses = self.losses[k]
        return LearnerReport(
            v_loss=losses.get("v"),
            w_loss=losses.get("w"),
            w_unlabeled_loss=losses.get("w_unlabeled"),
            validation_loss=losses.get("validation"),
            terms=terms,
            gradient=total(terms.values()) if terms else {},
            soft_labels=self.p[k] if self.p else None,
            skipped=self.skipped[k],
        )


def _v(learner: Learner) -> Tensors:
    assert learner.v is not None  # checked when the group was made
    return learner.v


def _used(k: int, name: str, gradient: Tensor | None) -> Tensor:
    if gradient is None:
        raise ValueError(f"apply must use every architecture tensor, but that of learner {k} ignores {name!r}")
    return gradient


def _sum(parts: Sequence[Mapping[str, Tensor | None]]) -> dict[str, Tensor | None]:
    """The sum of gradients, where None means that a weight took no part."""
    result = dict(parts[0])
    for part in parts[1:]:
        for name, g in part.items():
            if g is not None:
                known = result[name]
                result[name] = g if known is None else known + g
    return result
