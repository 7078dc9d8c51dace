"""Batches on their way to a device: small tensors as one, large ones from memory that is pinned."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import TypeVar

import torch
from torch import Tensor

Batch = TypeVar("Batch")

MOST_RESIDENT = 2**30
"""Bytes of a set of images that is kept on a device as a whole, 1 GB: six times CIFAR."""


def send_rows(tensors: Sequence[Tensor | None], device: torch.device) -> list[Tensor | None]:
    """Send tensors of a row per image, [n] or [n, k], to a device in one copy.

    They are booleans, float32, or integers that fit into 32 bits, such as places of images, and arrive as they were.
    """
    columns = [_as_columns(tensor) for tensor in tensors if tensor is not None]
    there = send(torch.cat(columns, dim=1), device)
    parts = iter(torch.split(there, [column.shape[1] for column in columns], dim=1))
    return [None if tensor is None else _as_it_was(next(parts), tensor) for tensor in tensors]


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Send a tensor to a device; to CUDA from pinned memory, so that nobody waits for it."""
    if device.type == "cuda" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type == "cuda")


def one_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Give every batch only when the next one is on its way: its copy then comes before the step of the one given."""
    for here, _ in pairwise(chain(batches, [None])):
        yield here  # type: ignore[misc]


def _as_columns(tensor: Tensor) -> Tensor:
    rows = tensor.reshape(len(tensor), -1)
    if rows.dtype == torch.float32:
        return rows.contiguous().view(torch.int32)
    small = rows.to(torch.int32)
    assert rows.dtype == torch.bool or bool((small == rows).all())  # places and offsets are far below 2**31
    return small


def _as_it_was(columns: Tensor, tensor: Tensor) -> Tensor:
    if tensor.dtype == torch.float32:
        return columns.contiguous().view(torch.float32).view(tensor.shape)
    return columns.to(tensor.dtype).view(tensor.shape)
