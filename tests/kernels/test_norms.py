"""Batch norms and 1x1 convolutions on the path of torch operators: other kernels than torch's, the same numbers."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.kernels import EPSILON, norms
from smallgroup.kernels.convolutions import convolution
from smallgroup.kernels.norms import _fold, batch_norm
from tests.kernels.layers import SIZES, images

LAYOUTS = [torch.channels_last, torch.contiguous_format]
WIDE = [(2, 128, 4, 4), (3, 130, 3, 5), (1, 144, 1, 7), (8, 200, 2, 2)]
"""With so many channels that a product takes the place of a convolution; pixels that are and are not a multiple."""


@pytest.fixture(params=[True, False], ids=["together", "one by one"])
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether pixels are taken together, however small images are."""
    if request.param:
        monkeypatch.setattr(norms, "_LARGE", 0)
    return bool(request.param)


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("size", [*SIZES, (4, 36, 8, 8), (2, 200, 4, 4)], ids=str)
def test_a_batch_norm_is_torchs(size: tuple[int, ...], layout: torch.memory_format, affine: bool) -> None:
    x = (3 * images(size) + 5).contiguous(memory_format=layout).requires_grad_()
    own = (images(size[1:2], 1).requires_grad_(), images(size[1:2], 2).requires_grad_()) if affine else None
    g = images((size[0], size[1] + 3, *size[2:]), 3).contiguous(memory_format=layout)[:, 1:-2]
    found, statistics = batch_norm(x, own)
    scale, shift = own or (None, None)
    expected = functional.batch_norm(x, None, None, scale, shift, training=True, eps=EPSILON)
    torch.testing.assert_close(found, expected)
    leaves = [x, *(own or ())]
    grads = (torch.autograd.grad(y, leaves, g, retain_graph=True) for y in (found, expected))
    torch.testing.assert_close(*grads, rtol=0, atol=1e-10)
    variance, mean = torch.var_mean(x.detach(), (0, 2, 3), correction=0)
    torch.testing.assert_close(statistics, torch.stack([mean, (variance + EPSILON).rsqrt(), variance]))


def test_pixels_are_taken_together_where_that_is_faster(together: bool) -> None:
    def fold(*size: int) -> int:
        return _fold(torch.zeros(size).contiguous(memory_format=torch.channels_last))

    assert fold(96, 36, 32, 32) == 4
    assert fold(50, 64, 8, 8) == (2 if together else 1)
    if not together:
        return
    assert [fold(8, channels, 4, 4) for channels in (8, 36, 72, 127, 128, 144)] == [16, 4, 2, 2, 1, 1]
    assert [fold(1, 8, 3, pixels) for pixels in (3, 4, 10)] == [1, 4, 2]
    assert _fold(torch.zeros(8, 36, 4, 4)) == 1


@pytest.mark.usefixtures("together")
def test_a_mean_far_from_zero_costs_no_digits_more_than_torchs() -> None:
    x = (images((4, 36, 16, 16), dtype=torch.float32) + 100).contiguous(memory_format=torch.channels_last)
    expected = functional.batch_norm(x.double(), None, None, training=True, eps=EPSILON)
    torchs = functional.batch_norm(x, None, None, training=True, eps=EPSILON)

    def error(y: Tensor) -> float:
        return float((y - expected).abs().max())

    assert error(batch_norm(x, None)[0]) < max(2 * error(torchs), 1e-4)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("size", WIDE, ids=str)
def test_a_wide_convolution_is_torchs(size: tuple[int, ...], layout: torch.memory_format, bias: bool) -> None:
    x = images(size).contiguous(memory_format=layout).requires_grad_()
    matrix = images((7, size[1], 1, 1), 1).requires_grad_()
    added = images((7,), 2).requires_grad_() if bias else None
    leaves = [x, matrix, *([added] if added is not None else [])]
    found, expected = convolution(x, matrix, added, 1), functional.conv2d(x, matrix, added)
    g = images(tuple(found.shape), 3)
    torch.testing.assert_close(found, expected)
    for inputs in (leaves, *([leaf] for leaf in leaves)):
        grads = (torch.autograd.grad(y, inputs, g, retain_graph=True) for y in (found, expected))
        torch.testing.assert_close(*grads, rtol=0, atol=1e-10)
