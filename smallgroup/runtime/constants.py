"""Small constants on a device: sent there once, and then found again."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_SENT: Any = WeakTensorKeyDictionary()
"""By tensor of the host, its copies by device. They are forgotten with it."""


def constant_on(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor that never changes on a device; it is copied there the first time it is asked for."""
    if tensor.device == device:
        return tensor
    copies = _SENT.setdefault(tensor, {})
    if device not in copies:
        with torch.inference_mode(False):  # or graphs made later could not keep it
            copies[device] = tensor.detach().to(device)
    found: Tensor = copies[device]
    return found


def places_on(places: Sequence[int], device: torch.device) -> Tensor:
    """Return places for `index_select` on a device; those that recur are kept there."""
    if device.type == "cpu":  # making them costs less than finding them
        return torch.tensor(places)
    return _places(tuple(places), device)


# The bound keeps a long process from growing.
@lru_cache(maxsize=1 << 14)
def _places(places: tuple[int, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(places, device=device)


@lru_cache(maxsize=1 << 8)
def _numbers(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)


def numbers_on(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a few numbers as a tensor on a device; those that recur are kept there."""
    if device.type == "cpu":
        return torch.tensor(values, dtype=dtype)
    return _numbers(tuple(values), dtype, device)


@lru_cache(maxsize=1 << 8)
def _zeros(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.zeros(shape, dtype=dtype, device=device)


def zeros_beside(tensor: Tensor) -> Tensor:
    """Return zeros of the size of a tensor, never to be written to; on a device those that recur are kept there."""
    if tensor.device.type in ("cpu", "meta"):
        return torch.zeros_like(tensor)
    return _zeros(tensor.shape, tensor.dtype, tensor.device)
