"""What the learners of a search compute their passes in, for a block of code; losses are always in float32 or more."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from smallgroup.runtime.precision_names import FULL, Precision

_in_use: ContextVar[Precision] = ContextVar("precision", default=FULL)


@contextmanager
def using(precision: Precision, device: torch.device) -> Iterator[None]:
    """Compute the passes of this block in a precision, which the device must have.

    Torch rounds the inputs of convolutions to TF32 on CUDA devices by default. Here float32 means float32.
    """
    if precision == "tf32" and device.type != "cuda":
        raise ValueError(f"run.precision=tf32 needs a CUDA device, but the device is {device}; take float32")
    if precision == "bfloat16" and not torch.amp.is_autocast_available(device.type):
        raise ValueError(f"run.precision=bfloat16 needs a device with autocast, but {device} has none; take float32")
    products: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)  # type: ignore[attr-defined]
    before = [each.fp32_precision for each in products]
    token = _in_use.set(precision)
    try:
        for each in products if device.type == "cuda" else ():
            each.fp32_precision = "tf32" if precision == "tf32" else "ieee"
        yield
    finally:
        for each, value in zip(products, before, strict=True) if device.type == "cuda" else ():
            each.fp32_precision = value
        _in_use.reset(token)


@contextmanager
def in_full() -> Iterator[None]:
    """Compute the passes of this block in the precision of their tensors: for derivatives of derivatives."""
    token = _in_use.set(FULL)
    try:
        yield
    finally:
        _in_use.reset(token)


def current() -> Precision:
    """Return the precision of the passes that are computed now."""
    return _in_use.get()


def around_pass(device: torch.device) -> AbstractContextManager[Any]:
    """Return the context for a pass through a network; in bfloat16 torch chooses it operator by operator."""
    return torch.autocast(device.type, torch.bfloat16) if _in_use.get() == "bfloat16" else nullcontext()


def widened(x: Tensor) -> Tensor:
    """Return a tensor of half precision as float32, and any other as it is: sums and logits are not rounded again."""
    return x.float() if x.dtype == torch.bfloat16 else x
