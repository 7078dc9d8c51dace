"""The three batches of one iteration, checked before anything is computed."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]
"""Inputs and their labels."""


class Labelled(NamedTuple):
    """Inputs, their labels, and the largest of these."""

    inputs: Tensor
    labels: Tensor
    highest: int


@dataclass(frozen=True)
class Batches:
    """Labelled (x, y), unlabelled u, and validation (x_v, y_v); no validation batch means no stage 3."""

    train: Labelled
    unlabeled: Tensor | None
    validation: Labelled | None

    @staticmethod
    def checked(
        train: Batch, unlabeled: Tensor | None, validation: Batch | None, *, needs_unlabeled: bool
    ) -> "Batches":
        """Refuse what cannot be learned from, in a sentence."""
        labelled = _labelled("train", train)
        held_out = None if validation is None else _labelled("validation", validation)
        if needs_unlabeled:
            if not isinstance(unlabeled, Tensor):
                raise TypeError(
                    "unlabeled must be a tensor of inputs where learners teach one another, "
                    f"but got {type(unlabeled).__name__}"
                )
            _check_size("unlabeled", unlabeled)
        return Batches(labelled, unlabeled, held_out)


def _labelled(name: str, batch: Batch) -> Labelled:
    if not (isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(t, Tensor) for t in batch)):
        raise TypeError(f"{name} must be a pair of tensors (inputs, labels), but got {type(batch).__name__}")
    inputs, labels = batch
    _check_size(name, inputs)
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"{name} labels must be integers (class indices), but got {labels.dtype}")
    if tuple(labels.shape) != (inputs.shape[0],):
        raise ValueError(
            f"{name} must have one label per input, "
            f"but got labels of shape {tuple(labels.shape)} for {inputs.shape[0]} inputs"
        )
    lowest, highest = torch.stack(labels.aminmax()).tolist()  # one reading for all that is to be known of them
    if lowest < 0:
        raise ValueError(f"{name} labels must not be negative, but got {lowest}")
    return Labelled(inputs, labels, highest)


def _check_size(name: str, inputs: Tensor) -> None:
    if inputs.dim() == 0:
        raise ValueError(f"{name} must be a batch of inputs, but it is a single number")
    if inputs.shape[0] == 0:
        raise ValueError(f"{name} must hold at least one input, but its batch has size 0")
