"""The three batches of one iteration, checked before anything is computed."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from smallgroup.group.inputs import Inputs, check_inputs, size_of
from smallgroup.group.task import Task

Batch = tuple[Inputs, Any]
"""Inputs and their labels, row by row; a task may take other things than class numbers."""


class Labeled(NamedTuple):
    """Inputs and their labels, how many there are if that is known, and the highest class if labels are classes."""

    name: str
    inputs: Inputs
    labels: Any
    size: int | None
    highest: int | None


@dataclass(frozen=True)
class Batches:
    """Labeled (x, y), unlabeled u, and validation (x_v, y_v); no validation batch means no stage 3."""

    train: Labeled
    unlabeled: Inputs | None
    validation: Labeled | None

    @staticmethod
    def checked(
        task: Task, train: Batch, unlabeled: Inputs | None, validation: Batch | None, *, needs_unlabeled: bool
    ) -> "Batches":
        """Refuse what cannot be learned from, in a sentence."""
        labeled = _labeled(task, "train", train)
        held_out = None if validation is None else _labeled(task, "validation", validation)
        if needs_unlabeled:
            if unlabeled is None:
                raise TypeError("unlabeled must be a batch of inputs where learners teach one another, but it is None")
            check_inputs("unlabeled", unlabeled)
        return Batches(labeled, unlabeled, held_out)


def _labeled(task: Task, name: str, batch: Batch) -> Labeled:
    if not (isinstance(batch, tuple | list) and len(batch) == 2):
        raise TypeError(f"{name} must be a pair (inputs, labels), but got {type(batch).__name__}")
    inputs, labels = batch
    check_inputs(name, inputs)
    size = size_of(inputs)
    return Labeled(name, inputs, labels, size, task.check_labels(labels, size, name))
