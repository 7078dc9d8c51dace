"""The path of our own kernels: torch operators in C++, and their derivatives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.kernels.averages import move_averages
from smallgroup.kernels.blocks import NATIVE_BLOCKS
from smallgroup.kernels.cells import compute
from smallgroup.kernels.plans import CellTerms
from smallgroup.kernels.terms import (
    EPSILON,
    AnyTerm,
    Blocks,
    Board,
    Convolution,
    Deferred,
    Place,
    Term,
    check_values,
    differentiable_once,
)

_MOST_CHANNELS = 128
"""Of a cell in one call. With 256 the gradient of a cell's weights is larger than the caches, and written by image."""


class Native:
    """The path `native`: our own C++ kernels behind the functions of `terms.Backend`."""

    whole_nodes: ClassVar[bool] = False
    blocks: ClassVar[Blocks | None] = NATIVE_BLOCKS

    def convolutions(self, inputs: Sequence[Term], layers: Sequence[Convolution], stride: int) -> list[AnyTerm]:
        """Compute layers that are depthwise or of one pixel in fused form; wider ones by torch, which is fast there."""
        inputs = [self._differentiable(term) for term in inputs]
        results: list[AnyTerm | None] = [None] * len(layers)
        rectified: dict[int, Tensor] = {}
        now: list[int] = []
        for i, layer in enumerate(layers):
            source = layer.source
            if layer.filter is None and layer.matrix.shape[-1] > 1:
                if source not in rectified:
                    rectified[source] = functional.relu(self.normalized(inputs[source]))
                results[i] = _wide(rectified[source], layer, stride)
            elif layer.last:
                results[i] = Deferred(inputs[source], layer, stride)
            else:
                now.append(i)
        if now:
            chosen = [layers[i] for i in now]
            group, tensors = _grouped([inputs[layer.source] for layer in chosen], chosen, stride)
            found = _Units.apply(group, *tensors)  # type: ignore[no-untyped-call]
            move_averages(chosen, found[len(now) :], found[0])
            for i, y, statistics in zip(now, found[: len(now)], found[len(now) :], strict=True):
                results[i] = Term(y, statistics, _affine(layers[i].norm))
        return [term for term in results if term is not None]

    def _differentiable(self, term: Term) -> Term:
        """Return a term whose statistics are no constants, because convolutions do not differentiate through them."""
        constant = term.statistics is not None and not term.statistics.requires_grad
        return Term(self.normalized(term)) if constant and term.value.requires_grad else term

    def pool(self, x: Tensor, *, average: bool, stride: int, normed: bool) -> Term:
        """Pool images, with statistics if a batch norm follows."""
        y, statistics = _Pool.apply(x, stride, average)  # type: ignore[no-untyped-call]
        if normed:
            check_values(y)
        return Term(y, statistics if normed else None)

    def mix(self, terms: Sequence[AnyTerm], weights: Tensor, place: Place | None = None) -> Tensor:
        """Mix all terms in one pass, including those that were left to it."""
        present = [(i, term) for i, term in enumerate(terms) if isinstance(term, Term)]
        deferred: dict[tuple[Any, ...], list[tuple[int, Deferred]]] = {}
        for i, term in enumerate(terms):
            if isinstance(term, Deferred):
                key = (term.stride, term.input.value.shape, term.constant)
                deferred.setdefault(key, []).append((i, term))
        values = [term.value for _, term in present]
        like = values[0] if values else next(iter(deferred.values()))[0][1].input.value
        tensors = [*values, *(_or_nothing(term.affine, like) for _, term in present)]
        groups, order = [], [i for i, _ in present]
        for (stride, *_), members in deferred.items():
            layers = [term.layer for _, term in members]
            group, own = _grouped([term.input for _, term in members], layers, stride)
            groups.append(_Layers(group, layers))
            tensors += own
            tensors += [_or_nothing(_affine(layer.norm), like) for layer in layers]
            order += [i for i, _ in members]
        constants = [_or_nothing(term.statistics, like).detach() for _, term in present]
        plan = _Sum(constants, groups, order, place)
        mixed: Tensor = _Mix.apply(plan, weights.to(like), *tensors)  # type: ignore[no-untyped-call]
        return mixed

    def cell(self, plan: CellTerms, inputs: Sequence[Tensor], weights: Tensor) -> list[Tensor] | None:
        """Compute the cell as one operator; None for very many channels, where torch's convolutions are faster."""
        return compute(plan, inputs, weights) if inputs[0].shape[1] <= _MOST_CHANNELS else None

    def joined(self, parts: Sequence[Tensor], board: Board) -> Tensor:
        """Return the board if all parts are there."""
        if not board.holds(parts):
            return torch.cat(list(parts), dim=1)
        whole: Tensor = _Joined.apply(board, *parts)  # type: ignore[no-untyped-call]
        return whole

    def normalized(self, term: AnyTerm) -> Tensor:
        """Return a term normalized, as a mixture of one."""
        if isinstance(term, Term) and term.statistics is None:
            return term.value
        value = term.value if isinstance(term, Term) else term.input.value
        return self.mix([term], value.new_ones(1))


NATIVE = Native()


@dataclass(frozen=True)
class _Group:
    """Layers that are computed in one call, on inputs of one size: what of them is constant."""

    inputs: int
    sources: list[int]
    dilations: list[int]
    stride: int

    @property
    def layers(self) -> int:
        return len(self.sources)

    def forward(self, tensors: "_Tensors") -> tuple[list[Tensor], list[Tensor]]:
        """Return the results of the layers and their statistics."""
        ys, statistics = torch.ops.smallgroup.units_forward(
            tensors.xs,
            tensors.statistics,
            tensors.affines,
            True,
            self.sources,
            tensors.filters,
            tensors.matrices,
            self.dilations,
            self.stride,
            EPSILON,
        )
        return ys, statistics

    def backward(
        self,
        gradients: list[Tensor],
        results: list[Tensor],
        coefficients: list[Tensor],
        weights: list[Tensor],
        tensors: "_Tensors",
        *,
        of_weights: bool,
    ) -> list[Tensor | None]:
        """Return gradients in the order of the tensors; with coefficients, those of a weighted sum of the results."""
        dxs, dstatistics, daffines, dfilters, dmatrices = torch.ops.smallgroup.units_backward(
            gradients,
            results,
            coefficients,
            weights,
            tensors.xs,
            tensors.statistics,
            tensors.affines,
            True,
            self.sources,
            tensors.filters,
            tensors.matrices,
            self.dilations,
            self.stride,
            of_weights,
        )
        of_inputs = [*dxs, *_nonempty(dstatistics, tensors.statistics), *_nonempty(daffines, tensors.affines)]
        if not of_weights:
            return [*of_inputs, *([None] * (3 * self.layers))]
        return [*of_inputs, *dfilters, *dmatrices, *(torch.zeros_like(bias) for bias in tensors.biases)]


@dataclass(frozen=True)
class _Tensors:
    """The tensors of a group of layers, in the order that the kernels expect."""

    xs: list[Tensor]
    statistics: list[Tensor]
    """The statistics of the inputs, by which they are normalized."""
    affines: list[Tensor]
    filters: list[Tensor]
    matrices: list[Tensor]
    biases: list[Tensor]

    @staticmethod
    def of(group: _Group, tensors: Iterator[Tensor]) -> "_Tensors":
        """Take the next tensors of a list, in the order in which `_grouped` has put them there."""
        inputs, layers = group.inputs, group.layers
        xs = [_laid_out(x) for x in islice(tensors, inputs)]
        return _Tensors(xs, *(list(islice(tensors, count)) for count in (inputs, inputs, layers, layers, layers)))

    def all(self) -> list[Tensor]:
        """Return all tensors in the order in which `of` takes them."""
        return [*self.xs, *self.statistics, *self.affines, *self.filters, *self.matrices, *self.biases]


def _grouped(inputs: Sequence[Term], layers: Sequence[Convolution], stride: int) -> tuple[_Group, list[Tensor]]:
    """Group layers, each with its input; an input that several share is taken once."""
    unique: dict[int, Term] = {id(term.value): term for term in inputs}
    places = {key: i for i, key in enumerate(unique)}
    like = inputs[0].value
    group = _Group(
        len(unique),
        [places[id(term.value)] for term in inputs],
        [layer.dilation for layer in layers],
        stride,
    )
    return group, [
        *(term.value for term in unique.values()),
        *(_or_nothing(term.statistics, like) for term in unique.values()),
        *(_or_nothing(term.affine, like) for term in unique.values()),
        *(_or_nothing(layer.filter, like) for layer in layers),
        *(layer.matrix for layer in layers),
        *(_or_nothing(layer.bias, like) for layer in layers),
    ]


def _wide(x: Tensor, layer: Convolution, stride: int) -> Term:
    y = functional.conv2d(x, layer.matrix, layer.bias, stride, layer.matrix.shape[-1] // 2)
    statistics: Tensor = torch.ops.smallgroup.statistics(_dense(y.detach()), EPSILON)
    move_averages([replace(layer, bias=None)], [statistics], y)
    return Term(y, statistics, _affine(layer.norm))


def _affine(norm: nn.BatchNorm2d) -> Tensor | None:
    return torch.stack([norm.weight, norm.bias]) if norm.affine else None


def _or_nothing(tensor: Tensor | None, like: Tensor) -> Tensor:
    """Return an empty tensor for None, because lists of tensors cannot hold None."""
    return like.new_empty(0) if tensor is None else tensor


def _nonempty(gradients: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the tensors, with None for the empty ones."""
    return [g if t.numel() else None for g, t in zip(gradients, tensors, strict=True)]


def _laid_out(x: Tensor) -> Tensor:
    """Return images with their channels side by side; a slice of the channels of wider images stays as it is."""
    _, c, h, w = x.shape
    pixel = x.stride(3)
    if x.stride(1) == 1 and w > 1 and pixel >= c and x.stride(2) == w * pixel and x.stride(0) == h * w * pixel:
        return x
    return _dense(x)


def _dense(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


class _Units(torch.autograd.Function):
    """convolution(depthwise(relu(normalized x))) of several layers: the results, and their statistics."""

    @staticmethod
    def forward(ctx: Any, group: _Group, *tensors: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401
        taken = _Tensors.of(group, iter(tensors))
        ys, statistics = group.forward(taken)
        ctx.save_for_backward(*ys, *statistics, *taken.all())
        ctx.group = group
        ctx.set_materialize_grads(False)
        return (*ys, *statistics)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        group: _Group = ctx.group
        saved, layers = iter(ctx.saved_tensors), group.layers
        ys, statistics = list(islice(saved, layers)), list(islice(saved, layers))
        taken = _Tensors.of(group, saved)
        # A result that nobody used has no gradient.
        given = [
            _laid_out(torch.zeros_like(y) if g is None else g) for g, y in zip(gradients[:layers], ys, strict=True)
        ]
        slopes = [_slope(found, g, y) for found, g, y in zip(statistics, gradients[layers:], ys, strict=True)]
        ones = [y.new_ones(1) for y in ys]
        of_weights = any(ctx.needs_input_grad[1 + 3 * group.inputs :])
        return None, *group.backward(given, ys, slopes, ones, taken, of_weights=of_weights)


def _slope(statistics: Tensor, gradient: Tensor | None, y: Tensor) -> Tensor:
    """Return what the gradient of statistics adds to that of their images y: coefficients, see `Slope` in C++."""
    mean, rstd, _ = statistics
    if gradient is None:
        return torch.stack([torch.ones_like(mean), *torch.zeros_like(statistics)])
    of_mean, of_rstd, of_variance = gradient / (y.numel() / y.shape[1])
    return torch.stack([torch.ones_like(mean), -of_mean, of_rstd * rstd**3 - 2 * of_variance, mean])


class _Pool(torch.autograd.Function):
    """3x3 pooling, and the statistics of its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, stride: int, average: bool) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        x = _laid_out(x)
        y, statistics, chosen = torch.ops.smallgroup.pool_forward(x, stride, average, EPSILON)
        ctx.save_for_backward(x, chosen)
        ctx.stride = stride
        ctx.mark_non_differentiable(statistics)
        ctx.set_materialize_grads(False)
        return y, statistics

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor | None, _: None) -> tuple[Tensor | None, None, None]:  # noqa: ANN401
        if gradient is None:
            return None, None, None
        x, chosen = ctx.saved_tensors
        return torch.ops.smallgroup.pool_backward(_dense(gradient), x, ctx.stride, chosen), None, None


class _Layers(NamedTuple):
    """Layers of a group that a sum computes, and their constants."""

    group: _Group
    layers: Sequence[Convolution]


@dataclass(frozen=True)
class _Sum:
    """The constant part of a mixture: statistics of the terms that are there, and the layers that make the others."""

    statistics: list[Tensor]
    groups: list[_Layers]
    places: list[int]
    """Where in the sum the terms stand, those that are there first: added in one order whoever makes them."""
    place: Place | None = None
    """Where the sum is to be written."""

    def in_order(self, made: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors in the order of the sum."""
        return [tensor for _, tensor in sorted(zip(self.places, made, strict=True), key=lambda pair: pair[0])]


class _Mix(torch.autograd.Function):
    """sum_i w_i normalized(y_i); some of the y_i are results of layers, computed here.

    On the way back the gradients of those are never written down: the layers compute them from that of the sum.
    """

    @staticmethod
    def forward(ctx: Any, plan: _Sum, weights: Tensor, *tensors: Tensor) -> Tensor:  # noqa: ANN401
        rest, count = iter(tensors), len(plan.statistics)
        ys = [_laid_out(y) for y in islice(rest, count)]
        affines, statistics, saved = list(islice(rest, count)), list(plan.statistics), []
        for group, layers in plan.groups:
            taken = _Tensors.of(group, rest)
            made, found = group.forward(taken)
            move_averages(layers, found, made[0])
            ys += made
            statistics += found
            affines += islice(rest, group.layers)
            saved += taken.all()
        ys, affines, statistics = (plan.in_order(made) for made in (ys, affines, statistics))
        ctx.save_for_backward(weights, *ys, *affines, *saved)
        ctx.plan, ctx.statistics = plan, statistics
        if plan.place is None:
            out: Tensor = torch.ops.smallgroup.mix_forward(ys, statistics, affines, weights)
            return out
        out = plan.place.board.part(plan.place.number, ys[0])
        torch.ops.smallgroup.mix_into(out, ys, statistics, affines, weights)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        plan: _Sum = ctx.plan
        count, terms = len(plan.statistics), len(ctx.statistics)
        saved = iter(ctx.saved_tensors)
        (weights,) = islice(saved, 1)
        ys, affines = list(islice(saved, terms)), list(islice(saved, terms))
        gradient = _laid_out(gradient)
        present, places = plan.places[:count], iter(plan.places[count:])
        wanted = [0] * terms
        for place, asked in zip(present, ctx.needs_input_grad[2 : 2 + count], strict=True):
            wanted[place] = int(asked)
        dys, daffines, dw, coefficients = torch.ops.smallgroup.mix_backward(
            gradient, ys, ctx.statistics, affines, weights, wanted
        )
        of_affines = _nonempty(daffines, affines)
        result = [dys[place] if wanted[place] else None for place in present]
        result += [of_affines[place] for place in present]
        for group, _ in plan.groups:
            own = list(islice(places, group.layers))
            taken = _Tensors.of(group, saved)
            start = 2 + len(result) + 3 * group.inputs
            of_weights = any(ctx.needs_input_grad[start : start + 3 * group.layers])
            if of_weights or any(ctx.needs_input_grad[2 + len(result) : start]):
                result += group.backward(
                    [gradient] * group.layers,
                    [ys[place] for place in own],
                    [coefficients[place] for place in own],
                    [weights[..., place].contiguous() for place in own],
                    taken,
                    of_weights=of_weights,
                )
            else:
                result += [None] * (3 * group.inputs + 3 * group.layers)
            result += [of_affines[place] for place in own]
        return None, dw, *result


class _Joined(torch.autograd.Function):
    """Images that lie side by side already."""

    @staticmethod
    def forward(ctx: Any, board: Board, *parts: Tensor) -> Tensor:  # noqa: ANN401
        assert board.memory is not None
        ctx.parts = len(parts)
        whole: Tensor = parts[0].new_empty(0).set_(board.memory)  # type: ignore[call-overload]
        return whole

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        return None, *gradient.chunk(ctx.parts, dim=1)
