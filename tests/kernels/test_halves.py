"""Both halves of an image: what autograd gives for the same slices."""

import pytest
import torch

from smallgroup.kernels.halves import halves, side_by_side


@pytest.mark.parametrize("size", [(8, 8), (7, 6), (6, 7), (5, 5), (1, 1), (1, 4)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_values_and_gradients(size: tuple[int, int], layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, *size).contiguous(memory_format=layout).requires_grad_()
    ours, slices = side_by_side(x), torch.cat(halves(x), dim=1)
    assert torch.equal(ours, slices)
    gradient = torch.randn_like(ours)
    (found,) = torch.autograd.grad(ours, x, gradient)
    (expected,) = torch.autograd.grad(slices, x, gradient)
    assert torch.equal(found, expected)


def test_it_is_differentiable_once_and_says_so() -> None:
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad((side_by_side(x) ** 2).sum(), x, create_graph=True)
