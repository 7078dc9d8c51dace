"""What labels must be: each rule as a sentence that names the value which breaks it."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Labels = Any
"""What a loss is measured by: in the built-in tasks a tensor."""

INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
NUMBERS = {*INTEGERS, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64}
"""Types that torch compares and computes with: of uint16, float8 and complex numbers it cannot say the highest."""


def check_rows(labels: Labels, size: int | None, name: str, *, dims: int | None = None) -> None:
    """Refuse labels that are no tensor with an entry per input, or not of so many dimensions."""
    if not isinstance(labels, Tensor):
        raise TypeError(f"{name} labels must be a tensor, but got {type(labels).__name__}")
    if labels.layout != torch.strided or labels.is_nested:
        raise TypeError(f"{name} labels must be a dense tensor, but its layout is {labels.layout}")
    if labels.is_meta:
        raise TypeError(f"{name} labels must hold values, but they are on the device meta")
    if labels.dtype not in NUMBERS:
        raise TypeError(
            f"{name} labels must be integers of 8 bits or signed ones, floating-point numbers of 16 bits or more, or "
            f"booleans, but got {labels.dtype}"
        )
    shape = tuple(labels.shape)
    if not labels.numel() or not shape or dims not in (None, len(shape)) or size not in (None, shape[0]):
        raise ValueError(f"{name} must have one label per input, but got labels of shape {shape}{of(size)}")


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
    if labels.dtype not in INTEGERS:
        raise TypeError(f"{name} labels must be integers (class indices), but got {labels.dtype}")


def check_classes(highest: int | None, classes: int, name: str) -> None:
    """Refuse labels beyond the last class."""
    if highest is not None and highest >= classes:
        raise ValueError(f"{name} labels must be below the number of classes, but got {highest} for {classes} classes")


def check_shape(shape: Sequence[int], outputs: Tensor, labels: Tensor, name: str) -> None:
    """Refuse labels of another shape: broadcast, they would give a wrong loss without a word."""
    if tuple(labels.shape) != tuple(shape):
        raise ValueError(
            f"{name} labels must have shape {tuple(shape)} for outputs of shape {tuple(outputs.shape)}, "
            f"but got {tuple(labels.shape)}"
        )


def of(size: int | None) -> str:
    """Return the end of a sentence about a shape, where the number of inputs is known."""
    return "" if size is None else f" for {size} inputs"
