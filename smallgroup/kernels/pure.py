"""The path of torch operators alone: layers as they are, shared where they can be, gradients the cheaper way."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.kernels.averages import move_averages
from smallgroup.kernels.convolutions import convolution, depthwise
from smallgroup.kernels.norms import batch_norm, like, normalize, normalize_backward
from smallgroup.kernels.plans import CellTerms
from smallgroup.kernels.terms import AnyTerm, Blocks, Board, Convolution, Place, Term, differentiable_once


class Pure:
    """See `terms.Backend`. Empty statistics say that a term is still to be normalized: the sum does it."""

    whole_nodes: ClassVar[bool] = False
    blocks: ClassVar[Blocks | None] = None

    def convolutions(self, inputs: Sequence[Term], layers: Sequence[Convolution], stride: int) -> list[AnyTerm]:
        """Compute all layers; each input is rectified once, whatever number of layers it has."""
        rectified: dict[int, Tensor] = {}
        results: list[AnyTerm] = []
        for layer in layers:
            if layer.source not in rectified:
                rectified[layer.source] = functional.relu(inputs[layer.source].value)
            x, step = rectified[layer.source], stride
            if layer.filter is not None:
                x, step = depthwise(x, layer.filter, stride, layer.dilation), 1
            y = convolution(x, layer.matrix, layer.bias, step)
            left_to_the_sum = layer.last and not has_state(layer.norm)
            results.append(Term(y, y.new_empty(0)) if left_to_the_sum else Term(_normed(y, layer)))
        return results

    def pool(self, x: Tensor, *, average: bool, stride: int, normed: bool) -> Term:
        """Pool with the operator of torch, as the reference does."""
        if average:
            y = functional.avg_pool2d(x, 3, stride, 1, count_include_pad=False)
        else:
            y = functional.max_pool2d(x, 3, stride, 1)
        return Term(y, y.new_empty(0) if normed else None)

    def mix(self, terms: Sequence[AnyTerm], weights: Tensor, place: Place | None = None) -> Tensor:  # noqa: ARG002
        """Accumulate the weighted terms, so that neither products nor normalized terms are kept."""
        present = [term for term in terms if isinstance(term, Term)]  # nothing is deferred here
        if weights.dim() > 1:
            return _by_image([self.normalized(term) for term in present], weights)
        values, raw = [term.value for term in present], [term.statistics is not None for term in present]
        mixed: Tensor = _Sum.apply(raw, weights.to(values[0]), *values)  # type: ignore[no-untyped-call]
        return mixed

    def cell(self, plan: CellTerms, inputs: Sequence[Tensor], weights: Tensor) -> list[Tensor] | None:  # noqa: ARG002
        """Return None: this path has no operator for whole cells, which are computed node by node."""
        return None

    def joined(self, parts: Sequence[Tensor], board: Board) -> Tensor:  # noqa: ARG002
        """Join tensors along the channels with the operator of torch."""
        return torch.cat(list(parts), dim=1)

    def normalized(self, term: AnyTerm) -> Tensor:
        """Normalize a term by the statistics of the batch, if it is not normalized yet."""
        assert isinstance(term, Term)  # nothing is deferred here
        if term.statistics is None:
            return term.value
        return batch_norm(term.value, None)[0]


PURE = Pure()


def has_state(norm: nn.BatchNorm2d) -> bool:
    """Return whether a norm is more than a function of the batch."""
    return norm.affine or norm.running_mean is not None


def _normed(y: Tensor, layer: Convolution) -> Tensor:
    """Apply the norm of a layer, which updates its averages."""
    norm = layer.norm
    if y.device.type != "cpu":
        own: Tensor = norm(y)
        return own
    found, statistics = batch_norm(y, (norm.weight, norm.bias) if norm.affine else None)
    move_averages([replace(layer, bias=None)], [statistics], y)  # y is with the bias
    return found


class _Sum(torch.autograd.Function):
    """sum_i w_i y_i, term after term into one tensor; raw terms are normalized on the way, in both directions."""

    @staticmethod
    def forward(ctx: Any, raw: Sequence[bool], weights: Tensor, *terms: Tensor) -> Tensor:  # noqa: ANN401
        statistics: list[Tensor] = []
        total: Tensor | None = None
        for factor, term, is_raw in zip(_factors(weights), terms, raw, strict=True):
            value = term
            if is_raw:
                value, found = normalize(term)
                statistics.append(found)
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
        gradient = like(terms[0], gradient)
        shares: list[Tensor] = []
        of_terms: list[Tensor | None] = []
        wanted = ctx.needs_input_grad[2:]
        for weight, term, is_raw, asked in zip(_factors(weights), terms, ctx.raw, wanted, strict=True):
            if is_raw:
                # With a scale of one its gradient is that of the mixing weight, by channel.
                slope, share, _ = normalize_backward(gradient, term, None, next(statistics), of_x=asked)
                of_terms.append(None if slope is None else slope.mul_(weight))
                shares.append(share.sum())
            else:
                of_terms.append(gradient * weight if asked else None)
                shares.append((gradient * term).sum() if ctx.needs_input_grad[1] else weights.new_zeros(()))
        return None, torch.stack(shares), *of_terms


def _by_image(values: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Mix terms with weights for every image, [images, terms]."""
    first, *factors = weights.to(values[0])[..., None, None, None].unbind(dim=1)
    total = values[0] * first
    for value, factor in zip(values[1:], factors, strict=True):
        total = torch.addcmul(total, value, factor)
    return total


def _factors(weights: Tensor) -> list[Any]:
    """Return numbers, or on another device tensors, so that nobody waits for them."""
    return weights.tolist() if weights.device.type == "cpu" else list(weights.unbind())


def _added(total: Tensor, value: Tensor, factor: float | Tensor) -> Tensor:
    return total.add_(value * factor) if isinstance(factor, Tensor) else total.add_(value, alpha=factor)
