"""Sums in which every image has weights of its own, as drop path has them: the same as in plain torch."""

import copy

import pytest
import torch
from torch import Tensor, nn

from smallgroup import kernels
from smallgroup.kernels import Term
from smallgroup.spaces.layers import FULL, SEARCH, Style
from smallgroup.spaces.sharing import outputs
from tests.kernels.layers import SIZES, images, layer
from tests.kernels.test_paths import FAST, largest_difference

NAMES = ("sep_conv_3x3", "max_pool_3x3", "skip_connect", "dil_conv_5x5", "avg_pool_3x3")


def operations(channels: int, style: Style) -> nn.ModuleList:
    """What meets in a node: convolutions that are left to the sum, terms that are there already, a mere copy."""
    return nn.ModuleList(layer(name, channels, 1, style) for name in NAMES)


def computed(path: str, made: nn.ModuleList, x: Tensor, weights: Tensor, g: Tensor) -> list[Tensor]:
    """The sum and its gradients: in the images, in the weights of the sum, in all weights of the operations."""
    made = copy.deepcopy(made)
    x, weights = (
        x.detach().clone(memory_format=torch.preserve_format).requires_grad_(),
        weights.clone().requires_grad_(),
    )
    with kernels.using(path):
        if path == "plain":
            y = sum(w[:, None, None, None] * one(x) for w, one in zip(weights.unbind(1), made, strict=True))
        else:
            backend = kernels.backend_for(x)
            assert backend is not None
            y = backend.mix(outputs(backend, Term(x), list(made)), weights)
        assert isinstance(y, Tensor)
        found = torch.autograd.grad(y, [x, weights, *made.parameters()], g)
    return [y.detach(), *found]


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("style", [SEARCH, FULL], ids=["search", "full"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_sum_by_image(size: tuple[int, ...], style: Style, path: str) -> None:
    x = images(size).contiguous(memory_format=torch.channels_last)
    made = operations(size[1], style)
    weights = images((size[0], len(made)), 3)
    weights[0, 0] = 0.0  # a path that is dropped
    wide = images((size[0], size[1] + 3, *size[2:]), 4).contiguous(memory_format=torch.channels_last)
    for g in (wide[:, 2:-1], wide[:, 2:-1].contiguous()):  # of a slice of channels, as a concatenation gives it
        plain, fast = (computed(p, made, x, weights, g) for p in ("plain", path))
        assert largest_difference(fast, plain) < 1e-8


LARGE = [("relu_conv1", (3, 36, 31, 32)), ("dil_conv_3x3", (2, 5, 33, 32)), ("sep_conv_5x5", (2, 3, 40, 33))]
"""Images that are worked on in several pieces."""


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize(("name", "size"), LARGE, ids=[name for name, _ in LARGE])
def test_images_that_are_larger_than_a_piece(name: str, size: tuple[int, ...], path: str) -> None:
    x, made = images(size).contiguous(memory_format=torch.channels_last), nn.ModuleList([layer(name, size[1], 1, FULL)])
    weights = images((size[0], 1), 3)
    channels = made[0](x).shape[1]
    wide = images((size[0], channels + 3, *size[2:]), 4).contiguous(memory_format=torch.channels_last)
    plain, fast = (computed(p, made, x, weights, wide[:, 2:-1]) for p in ("plain", path))
    assert largest_difference(fast, plain) < 1e-8


@pytest.mark.parametrize("path", FAST)
def test_equal_weights_of_all_images_are_weights_of_the_sum(path: str) -> None:
    x, made = images((3, 5, 7, 9)).contiguous(memory_format=torch.channels_last), operations(5, FULL)
    weights = images((len(made),), 3)
    with kernels.using(path):
        backend = kernels.backend_for(x)
        assert backend is not None
        one = backend.mix(outputs(backend, Term(x), list(made)), weights)
        each = backend.mix(outputs(backend, Term(x), list(made)), weights.expand(3, -1))
    torch.testing.assert_close(each, one, rtol=0, atol=1e-12)


@pytest.mark.skipif("native" not in FAST, reason="there is no compiler")
def test_as_many_weights_as_images_or_one_of_each() -> None:
    y = images((3, 5, 4, 4)).contiguous(memory_format=torch.channels_last)
    nothing = y.new_empty(0)
    with kernels.using("native"):
        for weights in (y.new_ones(2), y.new_ones(2, 1), y.new_ones(3, 2), y.new_ones(1, 1, 1)):
            with pytest.raises(RuntimeError, match="weight"):
                torch.ops.smallgroup.mix_forward([y], [nothing], [nothing], weights)


@pytest.mark.skipif("native" not in FAST, reason="there is no compiler")
def test_what_is_empty_is_refused_by_the_kernels_and_left_to_torch() -> None:
    nothing, one = torch.empty(0), torch.ones(1)
    with kernels.using("native"):
        for empty in (torch.zeros(0, 5, 4, 4), torch.zeros(2, 0, 4, 4), torch.zeros(2, 5, 0, 4)):
            for weights in (one, torch.ones(len(empty), 1)):
                with pytest.raises(RuntimeError, match="not empty"):
                    torch.ops.smallgroup.mix_forward([empty], [nothing], [nothing], weights)
        with pytest.raises(RuntimeError, match="there must be images"):
            torch.ops.smallgroup.mix_forward([], [], [], one)
        with pytest.raises(RuntimeError, match="stride"):
            torch.ops.smallgroup.pool_forward(torch.zeros(1, 8, 4, 4), 0, True, 1e-5)
        assert kernels.backend_for(torch.zeros(0, 3, 8, 8)) is None
