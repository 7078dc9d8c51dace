"""The path of torch operators on devices where to start a kernel costs more than to run it: what is alike is one call.

Filters of one size that leave a node are one grouped convolution, and their batch norms are one: both treat channels by
themselves. The terms of a node are normalized and added in one pass, whatever their number.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.kernels.norms import like
from smallgroup.kernels.pure import Pure, has_state
from smallgroup.kernels.terms import (
    EPSILON,
    AnyTerm,
    ChannelPart,
    Convolution,
    Place,
    Term,
    check_values,
    differentiable_once,
)
from smallgroup.runtime import precision
from smallgroup.runtime.precision import widened


class Grouped(Pure):
    """See `terms.Backend`. The numbers are those of `Pure` up to rounding."""

    whole_nodes: ClassVar[bool] = True

    def convolutions(self, inputs: Sequence[Term], layers: Sequence[Convolution], stride: int) -> list[AnyTerm]:
        """Compute layers of one kind in one call; a norm with weights or averages of its own has a call of its own."""
        kinds: dict[tuple[object, ...], list[int]] = {}
        for place, layer in enumerate(layers):
            size = None if layer.filter is None else tuple(layer.filter.shape)
            kind = (size, tuple(layer.matrix.shape), layer.dilation, layer.bias is None, layer.last)
            alone = (place,) if has_state(layer.norm) else ()
            kinds.setdefault((*kind, *alone), []).append(place)
        rectified: dict[int, Tensor] = {}
        results: dict[int, AnyTerm] = {}
        for places in kinds.values():
            chosen = [layers[place] for place in places]
            if len(chosen) == 1:
                (found,) = super().convolutions(inputs, chosen, stride)
                results[places[0]] = found
                continue
            x = _rectified(inputs, [layer.source for layer in chosen], rectified)
            results.update(zip(places, _convolved(x, chosen, stride), strict=True))
        return [results[place] for place in range(len(layers))]

    def mix(self, terms: Sequence[AnyTerm], weights: Tensor, place: Place | None = None) -> Tensor:
        """Add the terms of a node in one pass of the kernel."""
        present = [term for term in terms if isinstance(term, Term)]  # nothing is deferred here
        if weights.dim() > 1:
            return super().mix(terms, weights, place)
        raw = [term.statistics is not None for term in present]
        values = [term.value for term in present]
        # Of terms in half precision the sum and the gradient of the weights are in float32.
        like_values = weights if any(value.dtype == torch.bfloat16 for value in values) else weights.to(values[0])
        mixed: Tensor = _Sum.apply(raw, like_values, *values)  # type: ignore[no-untyped-call]
        return mixed


GROUPED = Grouped()


def _rectified(inputs: Sequence[Term], sources: Sequence[int], known: dict[int, Tensor]) -> Tensor:
    """Return the inputs of layers side by side, after a ReLU; `known` keeps results that several kinds share."""
    first, *others = sources
    if any(source != first for source in others):
        return functional.relu(_beside_one_another([inputs[source] for source in sources]))
    if first not in known:
        known[first] = functional.relu(inputs[first].value)
    # A repeated input has one gradient, where parts of a concatenation would have to be added up.
    return known[first].repeat(1, len(sources), 1, 1)


def _beside_one_another(terms: Sequence[Term]) -> Tensor:
    """Return the images of several terms in one tensor; if they come from one call, it is its result."""
    parts = [term.part for term in terms if term.part is not None]
    if len(parts) == len(terms) == parts[0].parts:
        first = parts[0]
        if all(part.whole is first.whole and part.number == i for i, part in enumerate(parts)):
            return first.whole
    return torch.cat([term.value for term in terms], dim=1)


def _convolved(x: Tensor, layers: Sequence[Convolution], stride: int) -> list[AnyTerm]:
    """Compute layers of one kind without state, each on its part of the channels."""
    number, first, step = len(layers), layers[0], stride
    if first.filter is not None:
        filters = torch.cat([layer.filter for layer in layers if layer.filter is not None])
        padding = first.dilation * (filters.shape[-1] // 2)
        x, step = functional.conv2d(x, filters, None, stride, padding, first.dilation, len(filters)), 1
    matrices = torch.cat([layer.matrix for layer in layers])
    biases = [layer.bias for layer in layers if layer.bias is not None]
    y = functional.conv2d(x, matrices, torch.cat(biases) if biases else None, step, matrices.shape[-1] // 2, 1, number)
    if not first.last:
        check_values(y)
        y = functional.batch_norm(y, None, None, training=True, eps=EPSILON)
    parts = torch.chunk(y, number, dim=1)
    if first.last:
        return [Term(part, y.new_empty(0)) for part in parts]
    return [Term(part, part=ChannelPart(y, i, number)) for i, part in enumerate(parts)]


class _Sum(torch.autograd.Function):
    """sum_i w_i y_i over terms of one size, of which the raw ones are normalized on the way.

    The weights of raw terms are scales of one batch norm over all their channels.
    """

    @staticmethod
    def forward(ctx: Any, raw: Sequence[bool], weights: Tensor, *terms: Tensor) -> Tensor:  # noqa: ANN401
        n, c, h, w = terms[0].shape
        rows = [i for i, is_raw in enumerate(raw) if is_raw]
        plain = [i for i, is_raw in enumerate(raw) if not is_raw]
        factors = weights.unbind()
        saved: list[Tensor] = []
        total: Tensor | None = None
        if rows:
            check_values(terms[rows[0]])
            x = torch.cat([terms[i] for i in rows], dim=1)
            scale = torch.stack([factors[i] for i in rows]).repeat_interleave(c, output_size=len(rows) * c)
            y, mean, rstd = torch.native_batch_norm(x, scale, None, None, None, True, 0.0, EPSILON)
            total = y.view(n, len(rows), c, h, w).sum(dim=1, dtype=torch.promote_types(y.dtype, torch.float32))
            saved += [x, scale, mean, rstd]
        if plain:
            values = torch.stack([_pixels(widened(terms[i])) for i in plain])
            own = torch.stack([factors[i] for i in plain])
            beside = _images(_product(own, values.flatten(1)), terms[0])
            total = beside if total is None else total + beside
            saved += [values, own]
        assert total is not None
        ctx.save_for_backward(*saved)
        ctx.places = rows, plain
        ctx.number = len(terms)
        # A term may be some channels of larger images: what counts is where its channels lie.
        by_pixel = terms[0].stride(1) == 1
        return total.contiguous(memory_format=torch.channels_last if by_pixel else torch.contiguous_format)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        rows, plain = ctx.places
        n, c, h, w = gradient.shape
        saved = list(ctx.saved_tensors)
        of_weights: list[Tensor | None] = [None] * ctx.number
        of_terms: list[Tensor | None] = [None] * ctx.number
        wanted = ctx.needs_input_grad[2:]
        if rows:
            x, scale, mean, rstd = saved[:4]
            gradients = like(x, gradient.to(x.dtype).repeat(1, len(rows), 1, 1))
            dx, of_scale, _ = torch.ops.aten.native_batch_norm_backward(
                gradients, x, scale, None, None, mean, rstd, True, EPSILON, [any(wanted[i] for i in rows), True, False]
            )
            # The scale is a weight of its own for every channel.
            shares = of_scale.view(len(rows), c).sum(dim=1)
            of_weights = _placed(of_weights, rows, shares.unbind())
            if dx is not None and any(wanted[i] for i in rows):
                # A part for each term in memory of its own: convolutions would copy slices one by one.
                apart = dx.permute(0, 2, 3, 1).reshape(n, h, w, len(rows), c).permute(3, 0, 1, 2, 4).contiguous()
                of_terms = _placed(of_terms, rows, [part.permute(0, 3, 1, 2) for part in apart.unbind()])
        if plain:
            values, own = saved[-2:]
            pixels = _pixels(gradient).reshape(-1)
            of_weights = _placed(of_weights, plain, (values.flatten(1) @ pixels).unbind())
            if any(wanted[i] for i in plain):
                shares = torch.outer(own, pixels).unbind()
                of_terms = _placed(of_terms, plain, [_images(share, gradient) for share in shares])
        known = [share for share in of_weights if share is not None]
        return (
            None,
            torch.stack(known),
            *(term if asked else None for term, asked in zip(of_terms, wanted, strict=True)),
        )


def _product(weights: Tensor, rows: Tensor) -> Tensor:
    """Return weights @ rows in their precision: bfloat16 would round a product of matrices, but not a sum."""
    return (weights[:, None] * rows).sum(dim=0) if precision.current() == "bfloat16" else weights @ rows


def _pixels(images: Tensor) -> Tensor:
    """Return [n, h, w, c] of images whose channels lie side by side, in the order of memory."""
    return images.permute(0, 2, 3, 1)


def _images(pixels: Tensor, like_these: Tensor) -> Tensor:
    """Return pixels as images [n, c, h, w], in the memory they are in."""
    n, c, h, w = like_these.shape
    return pixels.view(n, h, w, c).permute(0, 3, 1, 2)


def _placed(found: list[Tensor | None], places: Sequence[int], tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the list with each tensor put into its place."""
    result = list(found)
    for place, tensor in zip(places, tensors, strict=True):
        result[place] = tensor
    return result
