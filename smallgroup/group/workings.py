"""What one iteration has to work with and has found so far; `iteration` says in which order."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from smallgroup.group import objectives
from smallgroup.group.batches import Batches, Labelled
from smallgroup.group.errors import NonFiniteError
from smallgroup.group.hypergradients import ZERO, MixedProduct, obstacle
from smallgroup.group.learner import Learner, checked_logits, log_mixture
from smallgroup.group.objectives import Gradients, Objective
from smallgroup.group.optimizers import Move
from smallgroup.group.report import TERMS, LearnerReport, StepReport
from smallgroup.group.teaching import Teaching
from smallgroup.group.tensors import (
    Point,
    Tensors,
    Vector,
    constants,
    norm,
    present,
    read,
    summed,
    total,
    unread_norm,
    zeros,
)
from smallgroup.runtime import Phase

Mover = Callable[[int, Vector[Tensor | None]], Move]
"""Takes the weights of learner k one step along a gradient: committed in place, or only computed."""


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


class Workings:
    """The results of the stages, learner by learner, the objectives they are made of, and their checks.

    A loss or gradient that is not finite stops the iteration; a second-order term that cannot be had is skipped.
    """

    def __init__(
        self,
        setting: Setting,
        standing: Sequence[Standing],
        batches: Batches,
        move_v: Mover,
        move_w: Mover,
        *,
        step: int,
    ) -> None:
        self.learners, self.teaching, self.standing = setting.learners, setting.teaching, standing
        self.product, self.label_path = setting.product, setting.label_path
        self.batches, self.move_v, self.move_w, self.step = batches, move_v, move_w, step
        self.everyone = range(len(self.learners))
        self.v: list[Move] = []
        self.p: list[Tensor] = []
        self.log_p: list[Tensor] = []
        self.o: list[dict[Phase, Objective]] = []
        self.w: list[Move] = []
        self.s: list[Tensor | None] = [None for _ in self.everyone]
        self.terms: list[dict[str, dict[str, Tensor]]] = [{} for _ in self.everyone]
        self.losses: list[dict[str, float]] = [{} for _ in self.everyone]
        self.unread: list[dict[str, Tensor]] = [{} for _ in self.everyone]
        self.skipped: list[dict[str, str]] = [{} for _ in self.everyone]
        self.classes: dict[int, int] = {}
        self.seconds: dict[int, float] = {}

    @contextmanager
    def timed(self, stage: int) -> Iterator[None]:
        """Note how long a stage takes."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start

    # Where the learners stand.

    def architecture(self, k: int) -> Tensors:
        """A_k, which no stage changes."""
        return self.learners[k].architecture

    def start_v(self, k: int) -> Tensors:
        """V_k before its step."""
        return self.standing[k].v

    @property
    def u(self) -> Tensor:
        """The unlabelled inputs."""
        assert self.batches.unlabeled is not None  # checked where stage 2 needs them
        return self.batches.unlabeled

    def start_w(self, k: int) -> Tensors:
        """W_k before its step."""
        return self.standing[k].w

    def stay(self, k: int) -> None:
        """W_k as it is, in the place of the step that is not taken."""
        self.w.append(Move(self.start_w(k), self.start_w(k), {}))

    # The objectives of the stages.

    def first(self, k: int) -> Objective:
        """L(V, A_k, D_tr)."""
        return self._on_labels(k, self.batches.train, "v")

    def second(self, k: int) -> dict[Phase, Objective]:
        """O_k as its one or two parts, by phase; the labels in it are constants."""
        teaching = self.teaching
        parts: dict[Phase, Objective] = {}
        if teaching.human_labels:
            parts["w"] = self._on_labels(k, self.batches.train, "w")
        if teaching.active:
            parts["w_unlabeled"] = self._on_unlabeled(k)
        return parts

    def third(self, k: int) -> Objective:
        """L(W', A_k, D_val)."""
        assert self.batches.validation is not None  # stage 3 is run only with a validation batch
        return self._on_labels(k, self.batches.validation, "val")

    def taught(self, k: int) -> Objective:
        """lambda mean_batch sum_c p_k S_k, as a function of what makes p_k."""
        # Of those it does not teach (at most itself) the sensitivity plays no part, and may be unknown.
        s = [torch.zeros_like(p) if s is None else s for p, s in zip(self.p, self.s, strict=True)]
        moved_labels = [p * change for p, change in zip(self.p, s, strict=True)]
        return objectives.of_labels(
            self.learners[k],
            self.u,
            self.teaching.received(k, s),
            self.teaching.weight,
            moved_labels=self.teaching.from_peers(k, moved_labels) if self.teaching.joint else None,
            phase=self._labelling_phase,
        )

    def _on_labels(self, k: int, batch: Labelled, phase: Phase) -> Objective:
        return objectives.on_labels(self.learners[k], batch.inputs, batch.labels, phase, highest=batch.highest)

    def _on_unlabeled(self, k: int) -> Objective:
        learner, teaching, u = self.learners[k], self.teaching, self.u
        if teaching.targets == "uniform":
            return objectives.on_uniform(learner, u, teaching.weight * teaching.mass)
        t = teaching.received(k, self.p)
        if teaching.joint:
            log_p = teaching.from_peers(k, self.log_p)
            return objectives.on_targets_jointly(learner, u, t, log_p, teaching.weight)
        return objectives.on_targets(learner, u, t, teaching.weight)

    def begin(self, k: int, phase: Phase, objective: Objective, weights: Tensors) -> None:
        """Let the learner look at the loss of a training phase where it stands."""
        weights, architecture = constants(weights), constants(self.architecture(k))
        self.learners[k].begin_phase(phase, architecture, lambda: objective(weights, architecture).value)

    # Labelling.

    def label(self) -> None:
        """p_k of every learner, or nothing where nobody learns from labels."""
        if not self.teaching.active or self.teaching.targets == "uniform":
            return
        for k in self.everyone:
            with torch.no_grad():
                self.log_p.append(self._log_label(k))
            self._check_classes(k, self.log_p[k])
            if not bool(self.log_p[k].isfinite().all()):
                raise NonFiniteError(k, 2, "a soft label", self.step)
            self.p.append(self.log_p[k].exp())

    def _log_label(self, k: int) -> Tensor:
        source, u = self.teaching.labels_from, self.u
        if not isinstance(source, str):
            return torch.log_softmax(checked_logits(source[k](u), u, f"the frozen labeller of learner {k}"), dim=1)
        weights = constants(self.v[k].after if source == "v" else self.start_w(k))
        architecture = constants(self.architecture(k))
        return log_mixture(self.learners[k].log_q(weights, architecture, u, self._labelling_phase))

    @property
    def _labelling_phase(self) -> Phase:
        """In the joint form a learner's labels *are* its predictions, random numbers included."""
        return "w_unlabeled" if self.teaching.joint else "label"

    # Results and their checks.

    def note(self, k: int, stage: int, name: str, found: Gradients) -> None:
        """Record the loss of a pass, to be read when it is known whether its gradients can be used."""
        self._check_classes(k, found.loss.log_q)
        self.unread[k][name] = found.loss.value
        if stage < 3 and all(g is None for g in found.weights.values()):
            raise ValueError(f"the logits of learner {k} must depend on its weights, but no gradient reaches them")

    def usable(self, k: int, stage: int, parts: Sequence[Vector[Tensor | None]]) -> Vector[Tensor | None]:
        """The sum of the gradients of the passes just noted, once it is known that losses and gradients are finite.

        A part that is not finite leaves no finite sum; only then the parts are looked at one by one.
        """
        names, gradient = list(self.unread[k]), summed(parts)
        gradient.norm = self._read(k, stage, unread_norm(present(gradient)))
        if not math.isfinite(gradient.norm):
            bad = [name for name, part in zip(names, parts, strict=True) if not math.isfinite(norm(present(part)))]
            quantity = f"the gradient of pass {bad[0]!r}" if bad else "the sum of the gradients of all passes"
            raise NonFiniteError(k, stage, quantity, self.step)
        return gradient

    def _read(self, k: int, stage: int, value: Tensor) -> float:
        """A value and the losses that were noted, in one reading; the losses must be finite."""
        unread, self.unread[k] = self.unread[k], {}
        *losses, result = read([*unread.values(), value])
        for name, loss in zip(unread, losses, strict=True):
            if not math.isfinite(loss):
                raise NonFiniteError(k, stage, f"the loss of pass {name!r}", self.step)
            self.losses[k][name] = loss
        return result

    def keep_direct(self, k: int, found: Gradients) -> None:
        """The direct term, which every architecture tensor must have; a penalty on the architecture is part of it."""
        # The gradient in the weights is only a direction here, and a bad direction is skipped.
        if not math.isfinite(self._read(k, 3, unread_norm(present(found.architecture)))):
            raise NonFiniteError(k, 3, "the gradient of pass 'val'", self.step)
        direct = self.terms[k]["direct"] = {}
        for name, gradient in found.architecture.items():
            if gradient is None:
                raise ValueError(f"apply must use every architecture tensor, but that of learner {k} ignores {name!r}")
            direct[name] = gradient
        penalty = objectives.penalty_gradient(self.learners[k])
        if penalty is not None:
            if not math.isfinite(norm(penalty.values())):
                raise NonFiniteError(k, 3, "the gradient of the penalty", self.step)
            direct.update(total([direct, penalty]))

    def can_follow(self, k: int, term: str, direction: Vector[Tensor]) -> bool:
        """Whether a direction is neither zero nor infinite; otherwise its term is skipped and counted."""
        reason = obstacle(direction)
        if reason is not None:
            self.skipped[k][term] = reason
        if reason == ZERO and term == "own" and self.p:
            # Then the predictions stay where they are: peers may rely on that. An infinite direction says nothing.
            self.s[k] = torch.zeros_like(self.p[k])
        return reason is None

    def keep(self, k: int, term: str, value: dict[str, Tensor]) -> bool:
        """Record a second-order term, or that it was skipped because it is not finite."""
        if not math.isfinite(norm(value.values())):
            self.skipped[k][term] = "the term is not finite"
            return False
        self.terms[k][term] = value
        return True

    def knows_pupils(self, k: int) -> bool:
        """Whether the sensitivity of everybody learner k teaches is known; otherwise two terms are skipped."""
        unknown = [j for j in self.teaching.pupils_of(k) if self.s[j] is None]
        if unknown:
            terms = ["cross"] * self.teaching.trains_v + ["label"] * self.label_path
            self.skipped[k].update(dict.fromkeys(terms, f"the sensitivity of learner {unknown[0]} is not known"))
        return not unknown

    def report(self) -> StepReport:
        """What is left of the iteration when it is over."""
        return StepReport(self.step, [self._report(k) for k in self.everyone], self.seconds)

    def _report(self, k: int) -> LearnerReport:
        losses, terms = self.losses[k], {}
        if self.batches.validation is not None:
            terms = {term: self.terms[k].get(term) or zeros(self.architecture(k)) for term in TERMS}
        return LearnerReport(
            v_loss=losses.get("v"),
            w_loss=losses.get("w"),
            w_unlabeled_loss=losses.get("w_unlabeled"),
            validation_loss=losses.get("val"),
            terms=terms,
            gradient=total(terms.values()) if terms else {},
            soft_labels=self.p[k] if self.p else None,
            skipped=self.skipped[k],
        )

    def _check_classes(self, k: int, table: Tensor) -> None:
        self.classes[k] = table.shape[1]
        for j, count in self.classes.items():
            if count != table.shape[1]:
                raise ValueError(
                    "learners must agree on the number of classes, "
                    f"but learner {j} has {count} and learner {k} has {table.shape[1]}"
                )
