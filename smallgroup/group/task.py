"""What the learners of a group learn: the losses, and what they hand to one another."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.group.inputs import Inputs
from smallgroup.group.labels import Labels, check_range, check_rows, check_shape, of


class Task(ABC):
    """A task for `SmallGroup(learners, task=...)`: four methods, and checks that may be made stricter.

    `outputs` are what a learner's `apply` returns, after `normalized`: one floating-point tensor whose first dimension
    is the batch. What is handed to peers is one such tensor too, a *table*. Methods must be pure and differentiable by
    torch, twice. A loss is a mean over the batch: doubling every input must not change it. Row i of the outputs learns
    from row i of a table and of the labels alone.
    `smallgroup.testing.TaskContract` tests all of this.

    The group never looks inside a table. It needs `slope` alone, which is computed from `pupil_loss`.
    """

    linear: ClassVar[bool] = False
    """Whether `pupil_loss` is linear in the table: then the tables of several teachers are added up first."""
    unit: ClassVar[str] = "outputs"
    """What `width` counts, for messages, such as "classes"."""

    @abstractmethod
    def loss(self, outputs: Tensor, labels: Labels) -> Tensor:
        """Return the loss on labels, a scalar: L in all three stages of the paper."""

    @abstractmethod
    def hand_over(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return what a learner with these outputs hands to its peers: in the paper soft labels p."""

    @abstractmethod
    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        """Return the loss of a pupil on what one teacher handed over, a scalar."""

    @abstractmethod
    def nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return what a teacher who knows nothing would hand over, for the control `targets="uniform"`."""

    def normalized(self, outputs: Tensor) -> Tensor:
        """Return what `apply` returned in the form that all other methods take, such as log-probabilities."""
        return outputs

    # Checks: invalid input raises one sentence.

    def check_labels(self, labels: Labels, size: int | None, name: str) -> int | None:
        """Refuse labels that no outputs could fit; return the highest class, where labels are classes.

        `size` is the number of inputs, where it is known; `name` is "train" or "validation".
        """
        check_rows(labels, size, name)
        check_range(labels, name)
        return None

    def check_outputs(self, outputs: Tensor, size: int | None, source: str) -> None:
        """Refuse outputs that do not fit a batch of this size; `source` says who returned them."""
        if not outputs.dim() or not outputs.numel() or size not in (None, outputs.shape[0]):
            raise ValueError(
                f"{source} must return one row of outputs per input, but got shape {tuple(outputs.shape)}{of(size)}"
            )

    def label_shape(self, outputs: Tensor) -> Sequence[int] | None:
        """Return the shape that labels must have for these outputs: theirs, unless a task says so; None is any shape.

        Labels of another shape could be broadcast, [n] against [n, 1] to [n, n], and silently give a wrong loss.
        """
        return outputs.shape

    def check_fit(self, outputs: Tensor, labels: Labels, highest: int | None, name: str) -> None:  # noqa: ARG002
        """Refuse labels that do not fit these outputs; `highest` is what `check_labels` has returned."""
        shape = self.label_shape(outputs)
        if not isinstance(shape, Sequence | None) or any(not isinstance(size, int) for size in shape or ()):
            raise TypeError(
                f"{name_of(self, 'label_shape')} must return a sequence of integers or None, but got {shape!r}"
            )
        if shape is not None and isinstance(labels, Tensor):
            check_shape(shape, outputs, labels, name)

    def width(self, outputs: Tensor) -> int | None:  # noqa: ARG002
        """Return the number of classes, labels or targets in which all learners must agree, if there is one."""
        return None

    # What follows from the losses. A task overrides these only for speed, or for several samples.

    def slope(self, outputs: Tensor, handed: Tensor) -> Tensor:
        """Return minus the derivative of `pupil_loss` in the table, times the batch size.

        Its derivative along a pupil's direction is the *sensitivity*: see docs/hypergradient.md.
        """
        with torch.enable_grad():
            table = handed.detach().requires_grad_()
            loss = self.pupil_loss(outputs, table)
            (derivative,) = torch.autograd.grad(loss, table, create_graph=outputs.requires_grad, materialize_grads=True)
        return -len(outputs) * derivative

    def loss_on_nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return the loss of a pupil on the table of a teacher who knows nothing."""
        with torch.no_grad():
            shape = handed_by(self, outputs.detach(), inputs).shape
        table = checked_table(self.nothing(outputs, inputs), len(outputs), name_of(self, "nothing"), shape)
        return self.pupil_loss(outputs, table.detach())

    def handed_change(self, handed: Tensor, sensitivity: Tensor) -> Tensor | None:  # noqa: ARG002
        """Return how a table changes along its learner's direction, if its sensitivity tells; None: measure it."""
        return None

    def is_sampled(self, outputs: Tensor) -> bool:  # noqa: ARG002
        """Return whether the outputs are those of several samples, [samples, batch, ...]."""
        return False

    def mixed(self, outputs: Tensor) -> Tensor:
        """Return the outputs of a learner over all its samples, given those of each."""
        raise NotImplementedError(f"{type(self).__name__} does not define how several samples are combined")


def handed_by(task: Task, outputs: Tensor, inputs: Inputs) -> Tensor:
    """Return the table that a task makes of some outputs, checked."""
    rows = outputs.shape[1 if task.is_sampled(outputs) else 0]
    return checked_table(task.hand_over(outputs, inputs), rows, name_of(task, "hand_over"))


def checked_table(table: object, rows: int, source: str, shape: Sequence[int] | None = None) -> Tensor:
    """Return a table that is one floating-point tensor with a row per input, or raise a sentence.

    Where its shape is known it must have that: another one could be broadcast, and give wrong gradients without a word.
    """
    is_table = isinstance(table, Tensor) and table.is_floating_point() and table.shape[:1] == (rows,)
    if not isinstance(table, Tensor) or not is_table or shape not in (None, table.shape):
        form = f"with a row for each of {rows} inputs" if shape is None else f"of shape {tuple(shape)}"
        raise TypeError(f"{source} must return one floating-point tensor {form}, but got {describe(table)}")
    return table


def checked_loss(loss: object, outputs: Tensor, source: str) -> Tensor:
    """Return a loss that is a scalar and depends on the outputs, or raise a sentence."""
    if not isinstance(loss, Tensor) or not loss.is_floating_point() or loss.dim():
        raise TypeError(f"{source} must return one floating-point tensor without dimensions, but got {describe(loss)}")
    if torch.is_grad_enabled() and outputs.requires_grad and not loss.requires_grad:
        raise TypeError(f"{source} must return a function of the outputs, but no gradient reaches them")
    return loss


def name_of(task: Task, method: str) -> str:
    """Return what a method of a task is called in a sentence."""
    return f"{method} of {type(task).__name__}"


def describe(value: object) -> str:
    """Return what a value is, for the end of a sentence."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return "None" if value is None else type(value).__name__
