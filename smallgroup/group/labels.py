"""What labels must be: each rule as a sentence that names the value which breaks it."""

import math
from typing import Any

import torch
from torch import Tensor

Labels = Any
"""What a loss is measured by: in the built-in tasks a tensor."""


def check_rows(labels: Labels, size: int | None, name: str, *, dims: int | None = None) -> None:
    """Refuse labels that are no tensor with an entry per input, or not of so many dimensions."""
    if not isinstance(labels, Tensor):
        raise TypeError(f"{name} labels must be a tensor, but got {type(labels).__name__}")
    shape = tuple(labels.shape)
    if not labels.numel() or not shape or dims not in (None, len(shape)) or size not in (None, shape[0]):
        raise ValueError(f"{name} must have one label per input, but got labels of shape {shape}{of(size)}")


def check_count(rows: int, labels: Tensor, name: str) -> None:
    """Refuse another number of labels than of rows of outputs: of inputs that are no tensor, outputs alone tell."""
    if labels.shape[0] != rows:
        raise ValueError(
            f"{name} must have one label per row of outputs, but got {labels.shape[0]} labels for {rows} rows"
        )


def check_range(labels: Tensor, name: str) -> tuple[float, float]:
    """Return the lowest and the highest label, which must be finite: one reading for all that is to be known."""
    lowest, highest = torch.stack(labels.aminmax()).tolist()
    for value in (lowest, highest):
        if not math.isfinite(value):
            raise ValueError(f"{name} labels must be finite, but got {value}")
    return lowest, highest


def check_not_negative(labels: Tensor, name: str) -> int:
    """Return the highest of some class indices, none of which may be negative."""
    lowest, highest = check_range(labels, name)
    if lowest < 0:
        raise ValueError(f"{name} labels must not be negative, but got {int(lowest)}")
    return int(highest)


def check_integers(labels: Tensor, name: str) -> None:
    """Refuse labels that are no class indices."""
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"{name} labels must be integers (class indices), but got {labels.dtype}")


def check_classes(highest: int | None, classes: int, name: str) -> None:
    """Refuse labels beyond the last class."""
    if highest is not None and highest >= classes:
        raise ValueError(f"{name} labels must be below the number of classes, but got {highest} for {classes} classes")


def check_same_shape(outputs: Tensor, labels: Tensor, name: str) -> None:
    """Refuse labels of another shape than the outputs: broadcast, they would give a wrong loss without a word."""
    if outputs.shape != labels.shape:
        raise ValueError(
            f"{name} labels must have the shape of the outputs, {tuple(outputs.shape)}, but got {tuple(labels.shape)}"
        )


def of(size: int | None) -> str:
    """Return the end of a sentence about a shape, where the number of inputs is known."""
    return "" if size is None else f" for {size} inputs"
