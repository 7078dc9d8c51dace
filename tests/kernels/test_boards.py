"""Sums that are written where their concatenation wants them, and terms that lie in such a place."""

import pytest
import torch
from torch import Tensor

from smallgroup import kernels
from smallgroup.kernels import Backend, Board, Place, Term
from tests.kernels.layers import SIZES, images
from tests.kernels.test_paths import FAST


def backend_of(path: str) -> Backend:
    with kernels.using(path):
        backend = kernels.backend_for(torch.zeros(1, 1, 2, 2))
    assert backend is not None
    return backend


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_two_sums_side_by_side_of_which_one_is_a_term_of_the_other(size: tuple[int, ...], path: str) -> None:
    """y1 = w1 x, y2 = w2 x + w3 y1, with weights by image; gradients of x and of the weights."""
    backend, board = backend_of(path), Board(2)
    x = images(size).contiguous(memory_format=torch.channels_last).requires_grad_()
    weights = images((size[0], 3), 1).requires_grad_()
    first = backend.mix([Term(x)], weights[:, :1], Place(board, 0))
    second = backend.mix([Term(x), Term(first)], weights[:, 1:], Place(board, 1))
    found = backend.joined([first, second], board)
    a, b, c = weights[:, :, None, None, None].unbind(1)
    expected = torch.cat([a * x, b * x + c * a * x], dim=1)
    torch.testing.assert_close(found, expected)
    g = images(tuple(found.shape), 2)
    grads = (torch.autograd.grad(y, [x, weights], g, retain_graph=True) for y in (found, expected))
    torch.testing.assert_close(*grads, rtol=0, atol=1e-10)
    if path == "native" and size[-1] > 1:
        assert board.holds([first, second])
        assert found.data_ptr() == first.data_ptr()


@pytest.mark.parametrize("path", FAST)
def test_what_does_not_lie_there_is_copied(path: str) -> None:
    backend = backend_of(path)
    x, one = images((2, 5, 4, 4)).contiguous(memory_format=torch.channels_last), torch.ones(1)
    board = Board(2)
    left = backend.mix([Term(x)], 2 * one, Place(board, 0))
    right = backend.mix([Term(x)], 3 * one, Place(board, 1))
    for parts in ([right, left], [left, x], [left], [left, right, left]):
        found = backend.joined(parts, board)
        torch.testing.assert_close(found, torch.cat(parts, dim=1), rtol=0, atol=0)
    assert Board(1).holds([x]) is False


@pytest.mark.skipif("native" not in FAST, reason="there is no compiler")
def test_second_derivatives_of_what_is_joined_are_refused() -> None:
    backend, board = backend_of("native"), Board(1)
    x = images((2, 5, 4, 4)).requires_grad_()
    part = backend.mix([Term(x)], torch.ones(1), Place(board, 0))
    joined = backend.joined([part], board)
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(joined.square().sum(), x, create_graph=True)


@pytest.mark.skipif("native" not in FAST, reason="there is no compiler")
def test_a_sum_must_fit_its_place() -> None:
    y, nothing = images((2, 5, 4, 4)).contiguous(memory_format=torch.channels_last), torch.empty(0)

    def into(out: Tensor) -> None:
        torch.ops.smallgroup.mix_into(out, [y], [nothing.double()], [nothing.double()], torch.ones(1).double())

    with kernels.using("native"):
        for out in (y[:, :4], y[:1], y.float(), torch.zeros(2, 5, 4, 5)):
            with pytest.raises(RuntimeError, match=r"size of the terms|must be dense, on the CPU and of type"):
                into(out)
        with pytest.raises(RuntimeError, match="channels_last"):
            into(y.contiguous())
