"""Depthwise convolutions on the path of torch operators: gradients by other kernels than torch's, the same numbers."""

import pytest
import torch
from torch.nn import functional

from smallgroup.kernels.convolutions import depthwise
from tests.kernels.layers import images


@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_gradients_are_torchs(stride: int, dilation: int, size: int) -> None:
    weight = images((6, 1, size, size), 1).requires_grad_()
    for shape in ((3, 6, 7, 9), (1, 6, 8, 8), (2, 6, 1, 5), (2, 6, 2, 3)):
        for memory in (torch.contiguous_format, torch.channels_last):
            x = images(shape).contiguous(memory_format=memory).requires_grad_()
            expected = functional.conv2d(x, weight, None, stride, dilation * (size // 2), dilation, 6)
            found = depthwise(x, weight, stride, dilation)
            g = images(tuple(found.shape), 2)
            torch.testing.assert_close(found, expected)
            for inputs in ([x], [weight], [x, weight]):
                grads = (torch.autograd.grad(y, inputs, g, retain_graph=True) for y in (found, expected))
                torch.testing.assert_close(*grads, rtol=0, atol=1e-11)
