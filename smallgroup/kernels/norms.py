"""Batch norms by the statistics of the batch, from torch operators that are fast on a CPU.

Torch's kernels for images whose channels lie side by side take a pixel at a time. Where that is a few dozen values they
are slower than the convolutions around them. So some pixels that lie side by side are taken for one with so many times
the channels, and what is found for those is put together.
"""

from typing import Any

import torch
from torch import Tensor

from smallgroup.kernels.terms import EPSILON, check_values, differentiable_once

_WIDE = 128
"""From so many channels on torch's kernels are fast."""
_LARGE = 1 << 19
"""For fewer values than that they are fast enough: to put things together takes longer than what it saves."""


def batch_norm(x: Tensor, affine: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    """Return x normalized, then scaled and shifted, and its [3, c] statistics, which are constants."""
    found: tuple[Tensor, Tensor] = _BatchNorm.apply(x, *(affine or (None, None)))  # type: ignore[no-untyped-call]
    return found


def normalize(x: Tensor, scale: Tensor | None = None, shift: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Normalize x as above where no derivatives are asked for."""
    check_values(x)
    fold = _fold(x)
    if fold == 1:
        # Torch tells the variance only to running averages, which a momentum of one makes what it tells them.
        mean, variance = x.new_zeros(x.shape[1]), x.new_zeros(x.shape[1])
        y, _, rstd = torch.native_batch_norm(x, scale, shift, mean, variance, True, 1.0, EPSILON)
        pixels = x.numel() / x.shape[1]
        return y, torch.stack([mean, rstd, variance * ((pixels - 1) / pixels)])
    rows = _rows(x, fold)
    means, variances = (found.view(fold, -1) for found in _moments(rows))
    mean = means.mean(dim=0)
    variance = variances.mean(dim=0) + (means - mean).square().mean(dim=0)
    rstd = (variance + EPSILON).rsqrt()
    factor = rstd if scale is None else rstd * scale
    constant = -mean * factor if shift is None else torch.addcmul(shift, mean, factor, value=-1)
    constants, factors = torch.stack([constant, factor]).repeat(1, fold)
    y = torch.addcmul(constants, rows, factors)
    return _images(y, x), torch.stack([mean, rstd, variance])


def normalize_backward(
    gradient: Tensor, x: Tensor, scale: Tensor | None, statistics: Tensor, *, of_x: bool = True
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Return the gradients of x (if wanted), of the scale and of the shift."""
    gradient, fold = like(x, gradient), _fold(x)
    ones = x.new_ones(fold * x.shape[1])
    if fold == 1:
        dx, of_scale, of_shift = _torchs(gradient, x, ones if scale is None else scale, statistics, of_x)
        return (dx if of_x else None), of_scale, of_shift
    gradients, rows = _rows(gradient, fold), _rows(x, fold)
    _, *sums = _torchs(gradients, rows, ones, statistics.repeat(1, fold), False)
    of_scale, of_shift = torch.stack(sums).view(2, fold, -1).sum(dim=1)
    if not of_x:
        return None, of_scale, of_shift
    mean, rstd, _ = statistics
    pixels = x.numel() / x.shape[1]
    factor = rstd if scale is None else rstd * scale
    tilt = factor * rstd * of_scale / -pixels
    constant = factor * of_shift / -pixels - tilt * mean
    constants, factors, tilts = torch.stack([constant, factor, tilt]).repeat(1, fold)
    dx = torch.addcmul(constants, gradients, factors).addcmul_(rows, tilts)
    return _images(dx, x), of_scale, of_shift


def like(image: Tensor, gradient: Tensor) -> Tensor:
    """Return the tensor in the layout of the images: torch is several times slower on a slice of channels."""
    by_pixel = image.is_contiguous(memory_format=torch.channels_last)
    return gradient.contiguous(memory_format=torch.channels_last if by_pixel else torch.contiguous_format)


class _BatchNorm(torch.autograd.Function):
    """A batch norm, and the statistics it found."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        y, statistics = normalize(x, scale, shift)
        ctx.save_for_backward(x, scale, statistics)
        ctx.mark_non_differentiable(statistics)
        ctx.set_materialize_grads(False)
        return y, statistics

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor | None, _: None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # noqa: ANN401
        if gradient is None:
            return None, None, None
        x, scale, statistics = ctx.saved_tensors
        dx, of_scale, of_shift = normalize_backward(gradient, x, scale, statistics, of_x=ctx.needs_input_grad[0])
        return (dx, None, None) if scale is None else (dx, of_scale, of_shift)


def _fold(x: Tensor) -> int:
    """Return how many pixels are folded into one."""
    _, c, h, w = x.shape
    by_pixel = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    if x.device.type != "cpu" or not by_pixel or x.numel() < _LARGE:
        return 1
    fold = 1
    while fold * c < _WIDE and len(x) * h * w % (2 * fold) == 0:
        fold *= 2
    return fold


def _rows(x: Tensor, fold: int) -> Tensor:
    return x.permute(0, 2, 3, 1).reshape(-1, fold * x.shape[1])


def _images(rows: Tensor, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    return rows.view(n, h, w, c).permute(0, 3, 1, 2)


def _moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return means and variances of the columns, in one pass."""
    mean, variance = torch.ops.aten.batch_norm_update_stats(rows, None, None, 1.0)
    return mean, variance


def _torchs(
    gradient: Tensor, x: Tensor, scale: Tensor, statistics: Tensor, of_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    mean, rstd, _ = statistics
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        gradient, x, scale, None, None, mean, rstd, True, EPSILON, [of_x, True, True]
    )
    return found
