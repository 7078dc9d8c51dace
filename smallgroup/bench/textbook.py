"""The plain reference: one iteration of small-group learning as the code of this field computes it.

NCHW, one module per operation and edge, layers of torch.nn, and `loss.backward()` with all weights and architectures
asking for gradients, half of which are thrown away; clipping, probes and steps tensor by tensor. It shares nothing with
`smallgroup.group` but the equations, and takes the same step, label path included: so it is also a second derivation of
that step, and a test holds one against the other.

In one thing it is kinder than the code that circulates: it goes back after every single pass, so that the activations
of one pass are all that it keeps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from smallgroup.bench.student import Moved, Student, StudentLoss, StudentTensors, TrainBatch, gradients_of, norm


class Along(NamedTuple):
    """The change of gradients along a direction of the weights."""

    architecture: StudentTensors
    targets: Tensor | float
    """The change for the soft labels by which the last loss is measured."""


class Textbook:
    """Students that teach one another in the paper's way.

    Args:
        students: at least one.
        hypergradient: "first-order", "finite-difference", or "exact", where one backward pass goes through another.
        lam, radius: as in `SmallGroup`.
    """

    def __init__(
        self, students: Sequence[Student], *, hypergradient: str = "first-order", lam: float = 1.0, radius: float = 0.01
    ) -> None:
        self.students, self.hypergradient, self.lam, self.radius = list(students), hypergradient, lam, radius
        self.teach = len(self.students) > 1
        self.second_order = hypergradient != "first-order"
        self.steps = 0

    def step(self, train: TrainBatch, unlabeled: Tensor, validation: TrainBatch) -> list[float]:
        """Take one iteration and return the validation losses."""
        for student in self.students:
            student.apply.begin_step(self.steps)
        v = [self._train_v(student, train) for student in self.students] if self.teach else []
        targets = self._targets(unlabeled) if self.teach else []
        losses, gradients, asked = [], [], []
        for k, student in enumerate(self.students):
            parts = [student.on_labels(train, "w")]
            if self.teach:
                parts.append(student.on_targets(unlabeled, targets[k], self.lam))
            moved = self._train_w(student, parts)
            loss, gradient = _validate(student, validation)
            if self.second_order:
                of_w = gradients_of(student.w)
                along = self._along(student, parts, moved, of_w, targets[k] if self.teach else None)
                _subtract(gradient, along.architecture)
                asked.append(along.targets)
            losses.append(loss)
            gradients.append(gradient)
        if self.teach and self.second_order:
            for k, student in enumerate(self.students):
                of_labels = -sum(table for j, table in enumerate(asked) if j != k)
                of_v = _follow_labels(student, unlabeled, of_labels, gradients[k])
                along = self._along(student, [student.on_labels(train, "v")], v[k], of_v, None)
                _subtract(gradients[k], along.architecture)
        for student, gradient in zip(self.students, gradients, strict=True):
            student.move_architecture(gradient)
        self.steps += 1
        return losses

    def _train_v(self, student: Student, train: TrainBatch) -> Moved:
        """Train V on human labels (stage 1)."""
        _backward(student, student.v, [student.on_labels(train, "v")])
        return student.move(student.v, student.step_v, remember=self.second_order)

    def _targets(self, unlabeled: Tensor) -> list[Tensor]:
        """Return for every learner the sum of the labels of the others."""
        with torch.no_grad():
            labels = [student.log_q(student.v, unlabeled, "label").exp() for student in self.students]
        sums = [torch.stack(labels[:k] + labels[k + 1 :]).sum(dim=0) for k in range(len(labels))]
        return [targets.requires_grad_() for targets in sums] if self.hypergradient == "exact" else sums

    def _train_w(self, student: Student, parts: Sequence[StudentLoss]) -> Moved:
        """Train W on human labels and on the labels of its peers."""
        _backward(student, student.w, parts)
        return student.move(student.w, student.step_w, remember=self.second_order)

    # Mixed second derivatives.

    def _along(
        self,
        student: Student,
        parts: Sequence[StudentLoss],
        moved: Moved,
        gradient: StudentTensors,
        targets: Tensor | None,
    ) -> Along:
        """Return how the gradients before a step change along what the step makes of a gradient after it."""
        direction = moved.direction(gradient)
        size = norm(direction)
        if size == 0:
            return Along({name: torch.zeros_like(tensor) for name, tensor in student.a.items()}, 0.0)
        if self.hypergradient == "exact":
            return _twice_backward(student, parts, moved.before, direction, targets)
        far = self.radius / size
        ahead, log_q_ahead = _probe(student, parts, moved.before, direction, far)
        behind, log_q_behind = _probe(student, parts, moved.before, direction, -2 * far)
        change = (log_q_ahead - log_q_behind) / (2 * far)
        of_targets = 0.0 if targets is None else -self.lam * change / len(change)
        return Along({name: (ahead[name] - behind[name]) / (2 * far) for name in student.a}, of_targets)


def _backward(student: Student, weights: StudentTensors, parts: Sequence[StudentLoss]) -> list[tuple[float, Tensor]]:
    """Compute the gradients of the sum in all tensors; return the values of the losses and their log-probabilities."""
    student.forget(weights)
    found = []
    for loss in parts:
        value, log_q = loss(weights)
        value.backward()  # type: ignore[no-untyped-call]
        found.append((float(value.detach()), log_q.detach()))
    return found


def _validate(student: Student, validation: TrainBatch) -> tuple[float, StudentTensors]:
    """Return the validation loss and its gradient in A; the gradient in W stays where it is."""
    ((loss, _),) = _backward(student, student.w, [student.on_labels(validation, "val")])
    penalty = student.apply.penalty(student.a)
    if penalty is not None:
        penalty.backward()  # type: ignore[no-untyped-call]
    return loss, gradients_of(student.a)


def _follow_labels(
    student: Student, unlabeled: Tensor, of_labels: Tensor | float, gradient: StudentTensors
) -> StudentTensors:
    """Add what A does to the peers by making labels with it; what V does to them is given back."""

    def effect(weights: StudentTensors) -> tuple[Tensor, Tensor]:
        log_q = student.log_q(weights, unlabeled, "label")
        return (log_q.exp() * of_labels).sum(), log_q

    _backward(student, student.v, [effect])
    for name, part in gradients_of(student.a).items():
        gradient[name] += part
    return gradients_of(student.v)


def _probe(
    student: Student, parts: Sequence[StudentLoss], weights: StudentTensors, direction: StudentTensors, far: float
) -> tuple[StudentTensors, Tensor]:
    """Shift the weights where they are; the gradient in A there, and the last log-probabilities."""
    with torch.no_grad():
        for name, tensor in weights.items():
            tensor.add_(direction[name], alpha=far)
    found = _backward(student, weights, parts)
    return gradients_of(student.a), found[-1][1]


def _twice_backward(
    student: Student,
    parts: Sequence[StudentLoss],
    weights: StudentTensors,
    direction: StudentTensors,
    targets: Tensor | None,
) -> Along:
    """Return the derivative of <gradient in the weights, direction> in A, and in the soft labels."""
    total = {name: torch.zeros_like(tensor) for name, tensor in student.a.items()}
    of_targets: Tensor | float = 0.0
    leaves = [*student.a.values()] if targets is None else [*student.a.values(), targets]
    for loss in parts:
        first = torch.autograd.grad(loss(weights)[0], list(weights.values()), create_graph=True, allow_unused=True)
        terms = [(g * direction[name]).sum() for name, g in zip(weights, first, strict=True) if g is not None]
        second = torch.autograd.grad(torch.stack(terms).sum(), leaves, allow_unused=True)
        for name, part in zip(total, second, strict=False):
            total[name] = total[name] if part is None else total[name] + part
        if targets is not None and second[-1] is not None:
            of_targets = of_targets + second[-1]
    return Along(total, of_targets)


def _subtract(gradient: StudentTensors, part: StudentTensors) -> None:
    """Subtract a step: it goes down, so what changes its gradient acts with the opposite sign."""
    for name in gradient:
        gradient[name] -= part[name]
