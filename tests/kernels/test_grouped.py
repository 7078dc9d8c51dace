"""What is grouped for a device gives the numbers and the gradients of the layers one by one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from smallgroup.kernels.grouped import GROUPED
from smallgroup.kernels.pure import PURE
from smallgroup.kernels.terms import Convolution, Term
from smallgroup.runtime import stream

C = 4


def numbers(*shape: int, key: int) -> Tensor:
    return torch.randn(*shape, generator=stream("grouped", key), dtype=torch.float64)


def images(key: int, count: int = 3) -> list[Tensor]:
    made = [numbers(2, C, 6, 5, key=100 * key + i) for i in range(count)]
    return [one.contiguous(memory_format=torch.channels_last).requires_grad_() for one in made]


def check_same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("raw", [(True, False, True), (True, True, True), (False, False, False), (False, True, False)])
def test_a_sum_of_terms(raw: tuple[bool, ...]) -> None:
    results = []
    for backend in (GROUPED, PURE):
        values, weights = images(1), numbers(3, key=9).requires_grad_()
        terms = [Term(value, value.new_empty(0) if one else None) for value, one in zip(values, raw, strict=True)]
        mixed = backend.mix(terms, weights)
        assert mixed.is_contiguous(memory_format=torch.channels_last)
        results.append([mixed, *torch.autograd.grad((mixed**2 * mixed).sum(), [weights, *values])])
    check_same(*results)


def test_terms_without_a_gradient_get_none() -> None:
    first, second, third = images(2)
    weights = numbers(3, key=8).requires_grad_()
    terms = [Term(first, first.new_empty(0)), Term(second.detach(), first.new_empty(0)), Term(third.detach())]
    mixed = GROUPED.mix(terms, weights)
    expected = PURE.mix(terms, weights)
    check_same(
        torch.autograd.grad(mixed.square().sum(), [weights, first]),
        torch.autograd.grad(expected.square().sum(), [weights, first]),
    )


def layer(key: int, *, kernel: int | None, last: bool, source: int = 0, affine: bool = False) -> Convolution:
    matrix = numbers(C, C, 1 if kernel else 3, 1 if kernel else 3, key=key)
    depthwise = None if kernel is None else numbers(C, 1, kernel, kernel, key=key + 50)
    norm = nn.BatchNorm2d(C, affine=affine, track_running_stats=False).double()
    return Convolution(matrix, norm, depthwise, dilation=1 if kernel != 5 else 2, source=source, last=last)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("apart", [True, False])
def test_layers_of_several_kinds(stride: int, last: bool, apart: bool) -> None:
    kinds = [3, 5, 3, None, 5, None, 3]
    layers = [layer(i, kernel=kind, last=last, source=i if apart else 0) for i, kind in enumerate(kinds)]
    layers.append(layer(7, kernel=3, last=last, source=7 if apart else 0, affine=True))  # a norm with weights
    results = []
    for backend in (GROUPED, PURE):
        inputs = images(3, len(layers) if apart else 1)
        own = [
            tensor.clone().requires_grad_()
            for one in layers
            for tensor in (one.matrix, one.filter)
            if tensor is not None
        ]
        given = iter(own)
        mine = [
            Convolution(
                next(given),
                one.norm,
                None if one.filter is None else next(given),
                None,
                one.dilation,
                one.source,
                one.last,
            )
            for one in layers
        ]
        terms = backend.convolutions([Term(x) for x in inputs], mine, stride)
        values = [backend.normalized(term) for term in terms]
        total = torch.stack([(value * (i + 1)).sin().sum() for i, value in enumerate(values)]).sum()
        results.append([*values, *torch.autograd.grad(total, [*inputs, *own])])
    check_same(*results)


def test_terms_in_half_precision_are_summed_in_float32() -> None:
    """As a search in bfloat16 has them on a device: raw ones of convolutions, and a skip connection in float32."""
    values, weights = [one.detach().float() for one in images(7)], numbers(3, key=19).float().requires_grad_()
    halves = [values[0].bfloat16(), values[1].bfloat16(), values[2]]
    results = []
    for own in (halves, [one.float() for one in halves]):
        leaves = [one.detach().requires_grad_() for one in own]
        terms = [Term(leaf, leaf.new_empty(0) if i < 2 else None) for i, leaf in enumerate(leaves)]
        with torch.autocast("cpu", torch.bfloat16):
            mixed = GROUPED.mix(terms, weights)
        assert mixed.dtype == torch.float32
        gradients = torch.autograd.grad(mixed.square().mean(), [weights, *leaves])
        assert [one.dtype for one in gradients] == [torch.float32, *(leaf.dtype for leaf in leaves)]
        results.append([mixed.detach(), *(one.float() for one in gradients)])
    for one, other in zip(*results, strict=True):
        assert float((one - other).norm() / other.norm()) < 0.02


def test_layers_in_half_precision() -> None:
    layers = [layer(20 + i, kernel=3, last=True) for i in range(2)]
    (x,) = images(8, count=1)
    expected = [term.value for term in GROUPED.convolutions([Term(x)], layers, 1) if isinstance(term, Term)]
    half = [
        replace(one, matrix=one.matrix.float(), filter=one.filter.float()) for one in layers if one.filter is not None
    ]
    with torch.autocast("cpu", torch.bfloat16):
        found = [term.value for term in GROUPED.convolutions([Term(x.float())], half, 1) if isinstance(term, Term)]
    assert [one.dtype for one in found] == [torch.bfloat16, torch.bfloat16]
    assert all(float((a - b).detach().norm() / b.detach().norm()) < 0.02 for a, b in zip(found, expected, strict=True))
