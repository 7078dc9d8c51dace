"""Inputs of any form: one tensor, or whatever the learners' `apply` takes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Inputs = Any
"""What a learner's `apply` is given: a tensor, or dictionaries, tuples and lists of tensors, nested at will."""


def is_one_object(inputs: Inputs) -> bool:
    """Return whether inputs are a tensor or move by themselves, as a `PackedSequence` does, a tuple only in name."""
    return isinstance(inputs, Tensor) or (hasattr(inputs, "to") and not isinstance(inputs, Mapping | list))


def check_inputs(name: str, inputs: Inputs) -> None:
    """Refuse an empty batch, and what no tensor is found in."""
    if isinstance(inputs, Tensor):
        if inputs.dim() == 0:
            raise ValueError(f"{name} must be a batch of inputs, but it is a single number")
        if inputs.shape[0] == 0:
            raise ValueError(f"{name} must hold at least one input, but its batch has size 0")
    elif not _holds_tensors(inputs):
        kind = type(inputs).__name__
        raise TypeError(f"{name} inputs must be a tensor, or a dictionary, tuple or list of tensors, but got {kind}")


def size_of(inputs: Inputs) -> int | None:
    """Return how many inputs a tensor holds; of another form only the learners know."""
    return inputs.shape[0] if isinstance(inputs, Tensor) else None


def to_device(inputs: Inputs, device: torch.device) -> Inputs:
    """Return the inputs on a device; those that are there already, and their containers, as the objects they are."""
    if is_one_object(inputs):
        return inputs.to(device)
    if isinstance(inputs, Mapping | tuple | list):
        values = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
        moved = [to_device(value, device) for value in values]
        if all(new is old for new, old in zip(moved, values, strict=True)):
            return inputs
        if isinstance(inputs, Mapping):
            return dict(zip(inputs, moved, strict=True))
        # A named tuple takes its fields one by one.
        return type(inputs)(*moved) if hasattr(inputs, "_fields") else type(inputs)(moved)
    return inputs


def _holds_tensors(inputs: Inputs) -> bool:
    if isinstance(inputs, Mapping | tuple | list) and not is_one_object(inputs):
        return any(map(_holds_tensors, inputs.values() if isinstance(inputs, Mapping) else inputs))
    return is_one_object(inputs)
