"""What results must be before they are used: a loss or gradient that is not finite stops the iteration."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from smallgroup.group import objectives
from smallgroup.group.errors import NonFiniteError
from smallgroup.group.found import Found
from smallgroup.group.hypergradients import ZERO, obstacle
from smallgroup.group.objectives import Gradients
from smallgroup.group.problem import Setting
from smallgroup.group.task import describe, name_of
from smallgroup.group.tensors import Vector, norm, present, read, summed, total, unread_norm

PENALTY = "the gradient of the penalty"
HANDED = "a label for peers"
"""Of any task: soft labels, predictions or maps."""


class _Later(NamedTuple):
    """A scalar on a device that must turn out to be finite; a loss has the name of its pass."""

    learner: int
    stage: int
    quantity: str
    value: Tensor
    loss: str | None = None


def _gradient_of(passes: Sequence[str]) -> str:
    """Return what the gradient of some passes is called in a sentence."""
    names = " and ".join(repr(name) for name in passes)
    return f"the gradient of pass {names}"


class Checks:
    """The way into `Found`. A second-order term that cannot be had is skipped and counted; all else must be finite."""

    def __init__(self, setting: Setting, found: Found, step: int) -> None:
        self._learners, self._teaching, self._label_path = setting.learners, setting.teaching, setting.label_path
        self._task = setting.task
        self._found, self._step = found, step
        self._unread: list[dict[str, Tensor]] = [{} for _ in setting.learners]
        self._defers = setting.defers_checks
        self._later: list[_Later] = []
        self._widths: dict[int, int] = {}

    def note(self, k: int, stage: int, name: str, found: Gradients) -> None:
        """Record the loss of a pass, to be read when it is known whether its gradients can be used."""
        self._check_width(k, found.loss.outputs)
        self._unread[k][name] = found.loss.value
        if stage < 3 and all(g is None for g in found.weights.values()):
            raise ValueError(f"the outputs of learner {k} must depend on its weights, but no gradient reaches them")

    def usable(self, k: int, stage: int, parts: Sequence[Vector[Tensor | None]]) -> Vector[Tensor | None]:
        """Return the sum of the gradients of the passes just noted, if losses and gradients are finite.

        A part that is not finite leaves no finite sum; only then the parts are looked at one by one.
        """
        names, gradient = list(self._unread[k]), summed(parts)
        if self._defers:
            gradient.unread = unread_norm(present(gradient))
            self._leave(k, stage, _gradient_of(names), gradient.unread)
            return gradient
        gradient.norm = self._read(k, stage, unread_norm(present(gradient)))
        if not math.isfinite(gradient.norm):
            bad = [name for name, part in zip(names, parts, strict=True) if not math.isfinite(norm(present(part)))]
            quantity = _gradient_of(bad[:1]) if bad else "the sum of the gradients of all passes"
            raise NonFiniteError(k, stage, quantity, self._step)
        return gradient

    def keep_handed(self, k: int, outputs: Tensor, table: Tensor) -> None:
        """Record p_k, which must be finite."""
        self._check_width(k, outputs)
        finite = outputs.isfinite().all() & table.isfinite().all()
        if self._defers:
            self._later.append(_Later(k, 2, HANDED, torch.where(finite, 0.0, math.inf)))
        elif not bool(finite):
            raise NonFiniteError(k, 2, HANDED, self._step)
        self._found.own_p[k] = outputs, table

    def keep_sensitivity(self, k: int, tables: Sequence[Tensor]) -> None:
        """Record the tables of s_k: one per teacher or one for all, and in the joint form how p_k changes."""
        known = list(tables[:1] if self._task.linear else tables[: len(self._teaching.teachers_of(k))])
        if self._teaching.joint and self._task.handed_change(self._found.p[k], tables[0]) is None:
            known.append(tables[-1])
        self._found.own_s[k] = known

    def keep_direct(self, k: int, found: Gradients) -> None:
        """Record the direct term, which every architecture tensor must have; a penalty on A_k is part of it."""
        # The gradient in the weights is only a direction here, and a bad direction is skipped.
        length = unread_norm(present(found.architecture))
        if self._defers:
            self._leave(k, 3, _gradient_of(["val"]), length)
        elif not math.isfinite(self._read(k, 3, length)):
            raise NonFiniteError(k, 3, _gradient_of(["val"]), self._step)
        direct = self._found.terms[k]["direct"] = {}
        for name, gradient in found.architecture.items():
            if gradient is None:
                raise ValueError(f"apply must use every architecture tensor, but that of learner {k} ignores {name!r}")
            direct[name] = gradient
        penalty = objectives.penalty_gradient(self._learners[k])
        if penalty is not None:
            length = unread_norm(list(penalty.values()))
            if self._defers:
                self._later.append(_Later(k, 3, PENALTY, length))
            elif not math.isfinite(float(length)):
                raise NonFiniteError(k, 3, PENALTY, self._step)
            direct.update(total([direct, penalty]))

    def can_follow(self, k: int, term: str, direction: Vector[Tensor]) -> bool:
        """Return whether a direction is neither zero nor infinite; otherwise its term is skipped and counted."""
        reason = obstacle(direction)
        if reason is not None:
            self._found.skipped[k][term] = reason
        if reason == ZERO and term == "own" and self._teaching.labels_move:
            # Then the predictions stay where they are: peers may rely on that. An infinite direction says nothing.
            tables = len(self._teaching.teachers_of(k)) + self._teaching.joint
            self.keep_sensitivity(k, [torch.zeros_like(self._found.p[k])] * tables)
        return reason is None

    def keep(self, k: int, term: str, value: dict[str, Tensor]) -> bool:
        """Record a second-order term, or that it was skipped because it is not finite."""
        if not math.isfinite(norm(value.values())):
            self._found.skipped[k][term] = "the term is not finite"
            return False
        self._found.terms[k][term] = value
        return True

    def knows_pupils(self, k: int) -> bool:
        """Return whether the sensitivity of everybody learner k teaches is known; otherwise two terms are skipped."""
        unknown = [j for j in self._teaching.pupils_of(k) if self._found.s[j] is None]
        if unknown:
            terms = ["cross"] * self._teaching.trains_v + ["label"] * self._label_path
            reason = f"the sensitivity of learner {unknown[0]} is not known"
            self._found.skipped[k].update(dict.fromkeys(terms, reason))
        return not unknown

    def settle(self) -> None:
        """Read all that was left for the end of the step in one go; what is not finite ends it, the first found."""
        later, self._later = self._later, []
        if not later:
            return
        for one, value in zip(later, read([each.value for each in later]), strict=True):
            if not math.isfinite(value):
                raise NonFiniteError(one.learner, one.stage, one.quantity, self._step)
            if one.loss is not None:
                self._found.losses[one.learner][one.loss] = value

    def _leave(self, k: int, stage: int, quantity: str, value: Tensor) -> None:
        """Leave the losses that were noted, and a value, for the end of the step."""
        unread, self._unread[k] = self._unread[k], {}
        for name, loss in unread.items():
            self._later.append(_Later(k, stage, f"the loss of pass {name!r}", loss, name))
        self._later.append(_Later(k, stage, quantity, value))

    def _read(self, k: int, stage: int, value: Tensor) -> float:
        """Read a value and the losses that were noted in one go; the losses must be finite."""
        unread, self._unread[k] = self._unread[k], {}
        *losses, result = read([*unread.values(), value])
        for name, loss in zip(unread, losses, strict=True):
            if not math.isfinite(loss):
                raise NonFiniteError(k, stage, f"the loss of pass {name!r}", self._step)
            self._found.losses[k][name] = loss
        return result

    def _check_width(self, k: int, outputs: Tensor) -> None:
        width = self._task.width(outputs)
        if width is not None and (not isinstance(width, int) or isinstance(width, bool)):
            raise TypeError(f"{name_of(self._task, 'width')} must return an integer or None, but got {describe(width)}")
        if width is None:
            return
        self._widths[k] = width
        for j, other in self._widths.items():
            if other != width:
                raise ValueError(
                    f"learners must agree on the number of {self._task.unit}, "
                    f"but learner {j} has {other} and learner {k} has {width}"
                )
