"""Images of half the size without losing pixels."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.kernels.terms import differentiable_once


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return every second pixel, and every second one of the image shifted by one.

    A row or column of zeros stands in where an odd size leaves the shifted half one short.
    """
    height, width = x.shape[-2:]
    return x[..., ::2, ::2], functional.pad(x[..., 1::2, 1::2], (0, width % 2, 0, height % 2))


def side_by_side(x: Tensor) -> Tensor:
    """Return both halves, one after the other in the channels."""
    both: Tensor = _SideBySide.apply(x)  # type: ignore[no-untyped-call]
    return both


class _SideBySide(torch.autograd.Function):
    """Two halves side by side, whose gradient is written in place; autograd would spread and add slices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401
        ctx.shape = x.shape
        return torch.cat(halves(x), dim=1)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        _, channels, height, width = ctx.shape
        even, odd = gradient[:, :channels], gradient[:, channels:]
        dx = torch.empty(ctx.shape, dtype=gradient.dtype, device=gradient.device, memory_format=torch.channels_last)
        dx[..., ::2, ::2] = even
        dx[..., ::2, 1::2] = 0
        dx[..., 1::2, ::2] = 0
        dx[..., 1::2, 1::2] = odd[..., : height // 2, : width // 2]
        return dx
