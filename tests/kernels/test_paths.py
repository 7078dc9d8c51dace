"""Every path gives the numbers of the plain one: results, all gradients, running averages."""

import copy
import shutil

import pytest
import torch
from torch import Tensor, nn

from smallgroup import kernels
from smallgroup.spaces.layers import FULL, SEARCH, Style
from tests.kernels.layers import SIZES, images, layer

CONVOLUTIONS = [
    "sep_conv_3x3",
    "sep_conv_5x5",
    "sep_conv_7x7",
    "dil_conv_3x3",
    "dil_conv_5x5",
    "relu_conv1",
    "relu_conv3",
]
FAST = [path for path in kernels.available() if path != "plain"]


def test_the_native_kernels_are_tested_here() -> None:
    """Where there is a compiler they must build: otherwise every test below would silently say less."""
    if shutil.which("c++") is None:
        pytest.skip("there is no compiler")
    assert "native" in FAST


def computed(path: str, module: nn.Module, x: Tensor, g: Tensor | None = None) -> tuple[list[Tensor], nn.Module]:
    """The result, its gradients in the input and all weights under a random direction, and the module afterwards."""
    module = copy.deepcopy(module)
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    with kernels.using(path):
        y = module(x)
        g = images(tuple(y.shape), 5, y.dtype) if g is None else g
        found = torch.autograd.grad(y, [x, *module.parameters()], g)
    return [y.detach(), *found], module


def largest_difference(some: list[Tensor], others: list[Tensor]) -> float:
    """Of the tensors' differences, each against the largest entry of all: zero gradients have no scale of their own."""
    return max(float((a - b).abs().max() / max(1.0, float(b.abs().max()))) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("style", [SEARCH, FULL], ids=["search", "full"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_in_float64(name: str, stride: int, style: Style, path: str) -> None:
    for size in SIZES:
        module = layer(name, size[1], stride, style)
        for memory in (torch.contiguous_format, torch.channels_last):
            x = images(size).contiguous(memory_format=memory)
            if x[:, 0, ::stride, ::stride].numel() < 2:
                continue
            plain, after_plain = computed("plain", module, x)
            fast, after_fast = computed(path, module, x)
            # A batch of few pixels is normalized by a tiny variance, which magnifies rounding.
            assert largest_difference(fast, plain) < 1e-8, size
            for a, b in zip(after_fast.buffers(), after_plain.buffers(), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_in_float32(name: str, stride: int, path: str) -> None:
    """Both against float64, so that no rounding is blamed on the wrong side; ReLU flips where a value is almost zero,
    so the direction of the gradient is smooth in none: the relative error of the whole is compared.
    """
    size = (8, 20, 9, 10)
    x = images(size)
    exact, _ = computed("plain", layer(name, size[1], stride, SEARCH), x)
    g = images(tuple(exact[0].shape), 5, torch.float32)
    module = layer(name, size[1], stride, SEARCH, torch.float32)
    plain, _ = computed("plain", module, x.float(), g)
    fast, _ = computed(path, module, x.float(), g)
    for f, p, e in zip(fast, plain, exact, strict=True):
        if float(e.norm()) < 1e-9 * float(exact[0].norm()):
            continue  # a bias before a batch norm: its gradient is zero
        error, reference = float((f - e).norm() / e.norm()), float((p - e).norm() / e.norm())
        assert error < max(4 * reference, 3e-6)


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("style", [SEARCH, FULL], ids=["search", "full"])
def test_skips_that_halve_the_size(style: Style, path: str) -> None:
    for size in ((2, 16, 8, 8), (3, 5, 7, 9), (2, 4, 6, 5)):
        module = layer("factorized", size[1], 2, style)
        plain, fast = (computed(p, module, images(size))[0] for p in ("plain", path))
        assert largest_difference(fast, plain) < 1e-9


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("average", [False, True])
def test_pools(average: bool, stride: int, path: str) -> None:
    name = "avg_pool_3x3" if average else "max_pool_3x3"
    with kernels.using(path):
        backend = kernels.backend_for(images((1, 1, 2, 2)))
    assert backend is not None
    for size in SIZES:
        x = images(size).requires_grad_()
        plain = layer(name, size[1], stride, FULL)(x)
        fast = backend.pool(x, average=average, stride=stride, normed=False).value
        g = images(tuple(plain.shape), 5)
        (dp,), (df,) = torch.autograd.grad(plain, x, g), torch.autograd.grad(fast, x, g)
        torch.testing.assert_close(fast, plain, rtol=1e-14, atol=1e-14)
        torch.testing.assert_close(df, dp, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("path", FAST)
def test_of_equal_pixels_the_first_is_the_largest(path: str) -> None:
    x = torch.zeros(2, 9, 6, 6, dtype=torch.float64, requires_grad=True)
    with kernels.using(path):
        backend = kernels.backend_for(x)
    assert backend is not None
    fast = backend.pool(x, average=False, stride=1, normed=False).value
    plain = nn.functional.max_pool2d(x, 3, 1, 1)
    g = images(tuple(plain.shape))
    assert torch.equal(torch.autograd.grad(fast, x, g)[0], torch.autograd.grad(plain, x, g)[0])


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("where", ["input", "weight"])
def test_what_is_no_number_stays_visible(where: str, path: str) -> None:
    for name in ("sep_conv_5x5", "dil_conv_3x3", "max_pool_3x3", "avg_pool_3x3", "relu_conv3"):
        module, x = layer(name, 8, 1, SEARCH), images((2, 8, 6, 6))
        if where == "input":
            x[1, 3, 2, 2] = torch.nan
        elif not list(module.parameters()):
            continue
        else:
            with torch.no_grad():
                next(module.parameters())[0] = torch.nan
        with kernels.using(path):
            assert bool(module(x).isnan().any()), name


@pytest.mark.parametrize("path", FAST)
def test_a_mean_far_from_zero_loses_no_digits(path: str) -> None:
    """The variance of values about 1,000 with a spread of 0.1, in single precision."""
    module = layer("relu_conv1", 4, 1, SEARCH, torch.float32)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(1.0)
    x = (images((4, 4, 8, 8)) * 0.1 + 1000).float()
    exact = layer("relu_conv1", 4, 1, SEARCH)
    with torch.no_grad():
        for parameter in exact.parameters():
            parameter.fill_(1.0)
    with kernels.using("plain"):
        expected = exact(x.double())
    with kernels.using(path):
        found = module(x)
    # What single precision can know of sums of about 4,000: 1e-7 * 4,000 over a spread of 0.2.
    assert float((found - expected).detach().abs().max()) < 2e-2


@pytest.mark.parametrize("path", FAST)
def test_images_may_be_slices_of_wider_ones(path: str) -> None:
    wide = images((3, 12, 7, 6)).contiguous(memory_format=torch.channels_last)
    module = layer("sep_conv_3x3", 5, 2, SEARCH)
    for x in (wide[:, :5], wide[:, 3:8], wide[:, ::2][:, :5], wide[..., 1:, :][:, :5]):
        plain, fast = (computed(p, module, x)[0] for p in ("plain", path))
        assert largest_difference(fast, plain) < 1e-9


@pytest.mark.parametrize("path", FAST)
def test_the_same_bits_every_time(path: str) -> None:
    x = images((5, 16, 9, 9), dtype=torch.float32)
    for name in ("sep_conv_3x3", "dil_conv_5x5", "relu_conv3"):
        module = layer(name, 16, 1, SEARCH, torch.float32)
        first, second = (computed(path, module, x)[0] for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("path", FAST)
def test_running_averages_serve_the_time_after_training(path: str) -> None:
    module = layer("sep_conv_3x3", 6, 1, FULL)
    other = copy.deepcopy(module)
    for step in range(3):
        x = images((4, 6, 5, 5), step)
        with kernels.using(path):
            module(x)
        with kernels.using("plain"):
            other(x)
    module.eval()
    other.eval()
    x = images((4, 6, 5, 5), 9)
    with kernels.using(path), torch.no_grad():
        found = module(x)
    with kernels.using("plain"), torch.no_grad():
        expected = other(x)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert int(dict(module.named_buffers())["3.num_batches_tracked"]) == 3
