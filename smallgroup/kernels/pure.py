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
    """A depthwise convolution whose gradient in the input is a convolution with the filter turned around.

    Torch's kernels for the way back are several times slower on a CPU than those for the way forward.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.dilation, ctx.padding = stride, dilation, dilation * (weight.shape[-1] // 2)
        return functional.conv2d(x, weight, None, stride, ctx.padding, dilation, len(weight))

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:  # noqa: ANN401
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        turns = ctx.stride == 1
        dx = None
        if needs_x and turns:
            turned = weight.flip(2, 3)
            dx = functional.conv2d(gradient, turned, None, 1, ctx.padding, ctx.dilation, len(weight))
        by_taps = ctx.dilation > 1
        dw = (
            _filter_gradient(x, gradient, ctx.stride, ctx.dilation, weight.shape[-1])
            if needs_weight and by_taps
            else None
        )
        rest = (needs_x and not turns, needs_weight and not by_taps, False)
        if any(rest):
            found = torch.ops.aten.convolution_backward(
                gradient,
                x,
                weight,
                None,
                [ctx.stride] * 2,
                [ctx.padding] * 2,
                [ctx.dilation] * 2,
                False,
                [0, 0],
                len(weight),
                rest,
            )
            return dx if turns else found[0], dw if by_taps else found[1], None, None
        return dx, dw, None, None


def _filter_gradient(x: Tensor, gradient: Tensor, stride: int, dilation: int, size: int) -> Tensor:
    """Tap by tap: for dilated filters several times faster than torch's kernel."""
    reach = dilation * (size // 2)
    height, width = (stride * (n - 1) + 1 for n in gradient.shape[2:])
    bordered = functional.pad(x, (reach,) * 4).permute(0, 2, 3, 1).contiguous()
    by_pixel = gradient.permute(0, 2, 3, 1)
    taps = [
        (bordered[:, i : i + height : stride, j : j + width : stride] * by_pixel).sum((0, 1, 2))
        for i in range(0, dilation * size, dilation)
        for j in range(0, dilation * size, dilation)
    ]
    return torch.stack(taps, dim=1).view(x.shape[1], 1, size, size)


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
                shares.append((gradient * term).sum())
        return None, torch.stack(shares), *of_terms


def _factors(weights: Tensor) -> list[Any]:
    """As numbers, but on another device as tensors, so that nobody waits for it."""
    return weights.tolist() if weights.device.type == "cpu" else list(weights.unbind())


def _added(total: Tensor, value: Tensor, factor: float | Tensor) -> Tensor:
    return total.add_(value * factor) if isinstance(factor, Tensor) else total.add_(value, alpha=factor)
