"""Convolutions with torch's operators whose gradients are computed the way that is fast on a CPU."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.kernels.terms import differentiable_once

_MANY, _SHARES = 128, 8
"""From so many inputs on a product of matrices beats torch's gradient of a 1x1 convolution in its weights, and into how
many products it is split: one that sums over all pixels of a batch leaves threads without work."""


def convolution(x: Tensor, matrix: Tensor, bias: Tensor | None, stride: int) -> Tensor:
    """Convolve images; the size stays, or is divided by the stride."""
    by_pixel = x.is_contiguous(memory_format=torch.channels_last)
    if x.device.type == "cpu" and by_pixel and stride == 1 and matrix.shape[-1] == 1 and matrix.shape[1] >= _MANY:
        y: Tensor = _Pointwise.apply(x, matrix, bias)  # type: ignore[no-untyped-call]
        return y
    return functional.conv2d(x, matrix, bias, stride, matrix.shape[-1] // 2)


class _Pointwise(torch.autograd.Function):
    """A 1x1 convolution over channels-last rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(x, matrix)
        return functional.conv2d(x, matrix, bias)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # noqa: ANN401
        x, matrix = ctx.saved_tensors
        needs_x, needs_matrix, needs_bias = ctx.needs_input_grad
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        dx = dm = None
        if needs_x:
            dx = functional.conv2d(gradient, matrix.transpose(0, 1))
        if needs_matrix:
            dm = torch.bmm(_shares(gradient).transpose(1, 2), _shares(x)).sum(dim=0).view(matrix.shape)
        return dx, dm, gradient.sum(dim=(0, 2, 3)) if needs_bias else None


def _shares(x: Tensor) -> Tensor:
    """Split all pixels into a few equal parts, [parts, pixels, channels]."""
    pixels = x.numel() // x.shape[1]
    parts = next(parts for parts in range(_SHARES, 0, -1) if pixels % parts == 0)
    return x.permute(0, 2, 3, 1).reshape(parts, pixels // parts, -1)


def depthwise(x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:
    """Convolve each channel with a filter of its own."""
    padding = dilation * (weight.shape[-1] // 2)
    if x.device.type != "cpu":
        return functional.conv2d(x, weight, None, stride, padding, dilation, len(weight))
    y: Tensor = _Depthwise.apply(x, weight, stride, dilation)  # type: ignore[no-untyped-call]
    return y


class _Depthwise(torch.autograd.Function):
    """A depthwise convolution with gradients by the kernels that are fast on a CPU.

    Those in the input are a convolution with the filter turned around: torch's kernels for the way back are several
    times slower than those for the way forward. Torch's kernel for gradients in the filter is fine, but not where the
    filter is dilated: so the pixels are sorted such that it is not.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.dilation = stride, dilation
        return functional.conv2d(x, weight, None, stride, dilation * (weight.shape[-1] // 2), dilation, len(weight))

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:  # noqa: ANN401
        x, weight = ctx.saved_tensors
        stride, dilation = ctx.stride, ctx.dilation
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        dx = dw = None
        if stride == dilation:  # all taps lie on pixels that the stride does not leave out
            seen = x[..., ::stride, ::stride]
            if needs_x:
                dx = _spread(_turned(gradient, weight, 1), x, stride)
            if needs_weight:
                dw = _torchs(gradient, seen.contiguous(memory_format=torch.channels_last), weight)[1]
        elif stride == 1:
            dx = _turned(gradient, weight, dilation) if needs_x else None
            if needs_weight:
                gap = weight.shape[-1] // 2
                dw = _torchs(_sorted(gradient, dilation, gap), _sorted(x, dilation, gap), weight)[1]
        else:
            dx, dw = _torchs(gradient, x, weight, (stride, dilation), (needs_x, needs_weight))
        return dx, dw, None, None


def _turned(gradient: Tensor, weight: Tensor, dilation: int) -> Tensor:
    """Return the gradient in the input, for stride 1, as a convolution with the filter turned."""
    padding = dilation * (weight.shape[-1] // 2)
    return functional.conv2d(gradient, weight.flip(2, 3), None, 1, padding, dilation, len(weight))


def _torchs(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    steps: tuple[int, int] = (1, 1),
    needs: tuple[bool, bool] = (False, True),
) -> tuple[Tensor | None, Tensor | None]:
    """Return torch's own gradients for any stride and dilation; that of the filter only if it is wanted."""
    stride, dilation = steps
    padding = [dilation * (weight.shape[-1] // 2)] * 2
    dx, dw, _ = torch.ops.aten.convolution_backward(
        gradient, x, weight, None, [stride] * 2, padding, [dilation] * 2, False, [0, 0], len(weight), (*needs, False)
    )
    return dx, dw


def _spread(pixels: Tensor, x: Tensor, step: int) -> Tensor:
    """Return images like x that have every step-th pixel, and zeros elsewhere."""
    if step == 1:
        return pixels
    images = torch.zeros_like(x)
    images[..., ::step, ::step] = pixels
    return images


def _sorted(x: Tensor, step: int, gap: int) -> Tensor:
    """Return each of the step x step images of every step-th pixel, side by side with a gap of zeros between them.

    A filter with that dilation that reaches no farther than the gap is on this image one without.
    """
    if step == 1:
        return x
    n, c, *size = x.shape
    rows, columns = (-(-length // step) + gap for length in size)
    board = x.new_zeros(n, step * rows - gap, step * columns - gap, c).permute(0, 3, 1, 2)
    for i in range(step):
        for j in range(step):
            part = x[..., i::step, j::step]
            height, width = part.shape[2:]
            board[..., i * rows : i * rows + height, j * columns : j * columns + width] = part
    return board
