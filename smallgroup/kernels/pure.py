"""The path of torch operators alone: layers as they are, shared where they can be, gradients the cheaper way."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.kernels.terms import EPSILON, AnyTerm, Convolution, Term, check_values, differentiable_once


class Pure:
    """See `terms.Backend`. Empty statistics say that a term is still to be normalised: the sum does it."""

    def convolutions(self, inputs: Sequence[Term], layers: Sequence[Convolution], stride: int) -> list[AnyTerm]:
        """Each input is rectified once, whatever number of layers it has."""
        rectified: dict[int, Tensor] = {}
        results: list[AnyTerm] = []
        for layer in layers:
            if layer.source not in rectified:
                rectified[layer.source] = functional.relu(inputs[layer.source].value)
            x, step = rectified[layer.source], stride
            if layer.filter is not None:
                x, step = _depthwise(x, layer.filter, stride, layer.dilation), 1
            y = functional.conv2d(x, layer.matrix, layer.bias, step, layer.matrix.shape[-1] // 2)
            results.append(
                Term(y, y.new_empty(0)) if layer.last and not _has_state(layer.norm) else Term(layer.norm(y))
            )
        return results

    def pool(self, x: Tensor, *, average: bool, stride: int, normed: bool) -> Term:
        """Torch's."""
        if average:
            y = functional.avg_pool2d(x, 3, stride, 1, count_include_pad=False)
        else:
            y = functional.max_pool2d(x, 3, stride, 1)
        return Term(y, y.new_empty(0) if normed else None)

    def mix(self, terms: Sequence[AnyTerm], weights: Tensor) -> Tensor:
        """Accumulated: neither products nor normalised terms are kept."""
        present = [term for term in terms if isinstance(term, Term)]  # nothing is deferred here
        if weights.dim() > 1:
            return _by_image([self.normalised(term) for term in present], weights)
        values, raw = [term.value for term in present], [term.statistics is not None for term in present]
        mixed: Tensor = _Sum.apply(raw, weights.to(values[0]), *values)  # type: ignore[no-untyped-call]
        return mixed

    def normalised(self, term: AnyTerm) -> Tensor:
        """By the statistics of the batch, if it is not yet."""
        assert isinstance(term, Term)  # nothing is deferred here
        if term.statistics is None:
            return term.value
        return functional.batch_norm(term.value, None, None, training=True, eps=EPSILON)


PURE = Pure()


def _has_state(norm: nn.BatchNorm2d) -> bool:
    """Whether a norm is more than a function of the batch."""
    return norm.affine or norm.running_mean is not None


def _depthwise(x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:
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
    """The gradient in the input, for stride 1."""
    padding = dilation * (weight.shape[-1] // 2)
    return functional.conv2d(gradient, weight.flip(2, 3), None, 1, padding, dilation, len(weight))


def _torchs(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    steps: tuple[int, int] = (1, 1),
    needs: tuple[bool, bool] = (False, True),
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients as torch has them, for steps of a stride and a dilation; that of the filter unless told."""
    stride, dilation = steps
    padding = [dilation * (weight.shape[-1] // 2)] * 2
    dx, dw, _ = torch.ops.aten.convolution_backward(
        gradient, x, weight, None, [stride] * 2, padding, [dilation] * 2, False, [0, 0], len(weight), (*needs, False)
    )
    return dx, dw


def _spread(pixels: Tensor, x: Tensor, step: int) -> Tensor:
    """Every step-th pixel of images like x; the others are zero."""
    if step == 1:
        return pixels
    images = torch.zeros_like(x)
    images[..., ::step, ::step] = pixels
    return images


def _sorted(x: Tensor, step: int, gap: int) -> Tensor:
    """Each of the step x step images of every step-th pixel, beside one another with a gap of zeros between them.

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


class _Sum(torch.autograd.Function):
    """sum_i w_i y_i, term after term into one tensor; raw terms are normalised on the way, in both directions."""

    @staticmethod
    def forward(ctx: Any, raw: Sequence[bool], weights: Tensor, *terms: Tensor) -> Tensor:  # noqa: ANN401
        statistics: list[Tensor] = []
        total: Tensor | None = None
        for factor, term, is_raw in zip(_factors(weights), terms, raw, strict=True):
            value = term
            if is_raw:
                check_values(term)
                value, *found = torch.native_batch_norm(term, None, None, None, None, True, 0.0, EPSILON)
                statistics += found
            total = value * factor if total is None else _added(total, value, factor)
        assert total is not None
        ctx.save_for_backward(weights, *terms, *statistics)
        ctx.raw = raw
        return total

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        weights, *saved = ctx.saved_tensors
        terms, statistics = saved[: len(ctx.raw)], iter(saved[len(ctx.raw) :])
        gradient = _like(terms[0], gradient)  # of a slice of channels, a batch norm's kernel is several times slower
        shares: list[Tensor] = []
        of_terms: list[Tensor | None] = []
        wanted = ctx.needs_input_grad[2:]
        for weight, term, is_raw, asked in zip(_factors(weights), terms, ctx.raw, wanted, strict=True):
            if is_raw:
                # With a scale of one its gradient is that of the mixing weight, by channel.
                scale = term.new_ones(term.shape[1])
                slope, share, _ = torch.ops.aten.native_batch_norm_backward(
                    gradient, term, scale, None, None, *islice(statistics, 2), True, EPSILON, [asked, True, False]
                )
                of_terms.append(slope.mul_(weight) if asked else None)
                shares.append(share.sum())
            else:
                of_terms.append(gradient * weight if asked else None)
                shares.append((gradient * term).sum() if ctx.needs_input_grad[1] else weights.new_zeros(()))
        return None, torch.stack(shares), *of_terms


def _by_image(values: Sequence[Tensor], weights: Tensor) -> Tensor:
    """With weights of every image, [images, terms]."""
    first, *factors = weights.to(values[0])[..., None, None, None].unbind(dim=1)
    total = values[0] * first
    for value, factor in zip(values[1:], factors, strict=True):
        total = torch.addcmul(total, value, factor)
    return total


def _like(image: Tensor, gradient: Tensor) -> Tensor:
    """In the layout of the images."""
    by_pixel = image.is_contiguous(memory_format=torch.channels_last)
    return gradient.contiguous(memory_format=torch.channels_last if by_pixel else torch.contiguous_format)


def _factors(weights: Tensor) -> list[Any]:
    """As numbers, but on another device as tensors, so that nobody waits for it."""
    return weights.tolist() if weights.device.type == "cpu" else list(weights.unbind())


def _added(total: Tensor, value: Tensor, factor: float | Tensor) -> Tensor:
    return total.add_(value * factor) if isinstance(factor, Tensor) else total.add_(value, alpha=factor)
