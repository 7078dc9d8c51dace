"""The path of torch operators alone: layers as they are, shared where they can be, gradients the cheaper way."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from smallgroup.kernels.terms import EPSILON, AnyTerm, Convolution, Term


class Pure:
    """See `terms.Backend`. Batch norms are not put off here: terms have no statistics."""

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
            results.append(Term(layer.norm(y)))
        return results

    def pool(self, x: Tensor, *, average: bool, stride: int, normed: bool) -> Term:
        """Torch's."""
        if average:
            y = functional.avg_pool2d(x, 3, stride, 1, count_include_pad=False)
        else:
            y = functional.max_pool2d(x, 3, stride, 1)
        return Term(functional.batch_norm(y, None, None, training=True, eps=EPSILON) if normed else y)

    def mix(self, terms: Sequence[AnyTerm], weights: Tensor) -> Tensor:
        """Accumulated: no product is kept."""
        values = [self.normalised(term) for term in terms]
        mixed: Tensor = _Sum.apply(weights.to(values[0]), *values)  # type: ignore[no-untyped-call]
        return mixed

    def normalised(self, term: AnyTerm) -> Tensor:
        """As it is."""
        assert isinstance(term, Term)  # nothing is deferred here
        return term.value


PURE = Pure()


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
    @once_differentiable
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
    """sum_i w_i y_i, term after term into one tensor."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *terms: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(weights, *terms)
        factors = weights.tolist()
        total: Tensor = terms[0] * factors[0]
        for factor, term in zip(factors[1:], terms[1:], strict=True):
            total.add_(term, alpha=factor)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        weights, *terms = ctx.saved_tensors
        dw = None
        if ctx.needs_input_grad[0]:
            dw = torch.stack([(gradient * term).sum() for term in terms])
        of_terms = [
            gradient * weight if asked else None
            for weight, asked in zip(weights, ctx.needs_input_grad[1:], strict=True)
        ]
        return dw, *of_terms
