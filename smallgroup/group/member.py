"""A learner at its task: what both together compute."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from smallgroup.group.inputs import Inputs, size_of, to_device
from smallgroup.group.labels import Labels
from smallgroup.group.learner import Labeler, Learner, checked_outputs
from smallgroup.group.task import Task, checked_loss, checked_table, handed_by, name_of
from smallgroup.group.tensors import Tensors
from smallgroup.runtime import Phase


class Member(NamedTuple):
    """A learner of a group, and the task that all of them share."""

    learner: Learner
    task: Task

    def on_labels(self, outputs: Tensor, labels: Labels) -> Tensor:
        """Return the loss of some outputs on labels."""
        return self._checked("loss", self.task.loss(outputs, labels), outputs)

    def on_handed(self, outputs: Tensor, table: Tensor) -> Tensor:
        """Return the loss of a pupil's outputs on a table."""
        return self._checked("pupil_loss", self.task.pupil_loss(outputs, table.to(outputs)), outputs)

    def on_nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return the loss of a pupil on the table of a teacher who knows nothing."""
        loss = self.task.loss_on_nothing(outputs, to_device(inputs, outputs.device))
        return self._checked("loss_on_nothing", loss, outputs)

    def outputs(self, weights: Tensors, architecture: Tensors, inputs: Inputs, phase: Phase) -> Tensor:
        """Return f(weights, architecture, inputs), checked, in the form that the task's methods take."""
        outputs = self.learner.outputs(weights, architecture, inputs, phase)
        self.task.check_outputs(outputs, size_of(inputs), "apply")
        return self._normalized(outputs)

    def outputs_of(self, labeler: Labeler, inputs: Inputs, name: str) -> Tensor:
        """Return those of a frozen labeler in its place, several samples as one."""
        task = self.task
        outputs = checked_outputs(labeler(inputs), name)
        task.check_outputs(outputs, size_of(inputs), name)
        outputs = self._normalized(outputs)
        return task.normalized(task.mixed(outputs)) if task.is_sampled(outputs) else outputs

    def hand_over(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return the table made of some outputs."""
        return handed_by(self.task, outputs, to_device(inputs, outputs.device))

    def slope(self, outputs: Tensor, table: Tensor) -> Tensor:
        """Return the slope of a pupil's loss in a table; a task may compute it in a way of its own."""
        self.check_one_sample(outputs)
        table = table.to(outputs)
        return self._like(table, "slope", self.task.slope(outputs, table))

    def check_one_sample(self, outputs: Tensor) -> None:
        """Refuse several samples where the outputs themselves are differentiated: in the joint form."""
        if self.task.is_sampled(outputs):
            raise ValueError('labels_from="w-joint" needs learners of one sample, but one answers with several')

    def handed_change(self, table: Tensor, sensitivity: Tensor) -> Tensor | None:
        """Return how a table changes along its learner's direction, if the task can tell."""
        change = self.task.handed_change(table, sensitivity)
        return None if change is None else self._like(table, "handed_change", change)

    def check_handed(self, outputs: Tensor, inputs: Inputs, tables: Sequence[Tensor]) -> None:
        """Refuse tables of frozen labelers that the learner itself, with these outputs, would not hand over."""
        with torch.no_grad():
            own = self.hand_over(outputs.detach(), inputs)
        for table in tables:
            if table.shape != own.shape:
                raise ValueError(
                    f"frozen labelers must hand over tables of the shape of the learners', {tuple(own.shape)}, "
                    f"but got {tuple(table.shape)}"
                )

    def loss(self, loss: Callable[[Tensor], Tensor], outputs: Tensor, architecture: Tensors, phase: Phase) -> Tensor:
        """Return a loss on outputs; of several samples that which the learner makes of theirs."""
        if not self.task.is_sampled(outputs):
            return loss(outputs)
        return self._combined(torch.stack([loss(one) for one in outputs]), outputs, architecture, phase)

    def combined_slope(
        self, loss: Callable[[Tensor], Tensor], outputs: Tensor, handed: Tensor, architecture: Tensors, phase: Phase
    ) -> Tensor:
        """Return the slope of a loss in a table; each sample has the weight that its loss has in the combined one."""
        if not self.task.is_sampled(outputs):
            return self.slope(outputs, handed)
        losses = torch.stack([loss(one) for one in outputs])
        with torch.enable_grad():
            none = torch.zeros_like(losses, requires_grad=True)
            combined = self._combined(losses + none, outputs, architecture, phase)
            (shares,) = torch.autograd.grad(combined, none, create_graph=losses.requires_grad)
        return torch.einsum("n,n...->...", shares, torch.stack([self.slope(one, handed) for one in outputs]))

    def _combined(self, losses: Tensor, outputs: Tensor, architecture: Tensors, phase: Phase) -> Tensor:
        return self.learner.combine(losses, architecture, outputs.shape[1], phase)

    def _normalized(self, outputs: Tensor) -> Tensor:
        return checked_outputs(self.task.normalized(outputs), name_of(self.task, "normalized"))

    def _like(self, table: Tensor, method: str, made: object) -> Tensor:
        return checked_table(made, len(table), name_of(self.task, method), table.shape)

    def _checked(self, method: str, loss: Tensor, outputs: Tensor) -> Tensor:
        return checked_loss(loss, outputs, name_of(self.task, method))
