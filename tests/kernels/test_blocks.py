"""The blocks around the cells of NAS-Bench-201 in one call against the same layer by layer."""

import copy
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from smallgroup import kernels
from smallgroup.kernels.blocks import NativeBlocks
from smallgroup.spaces.layers import FULL, SEARCH
from smallgroup.spaces.nas_bench_201.skeleton import Head, PlainStem, ResidualReduction
from tests.kernels.layers import images

if "native" not in kernels.available():
    pytest.skip("there are no native kernels here", allow_module_level=True)

BLOCKS: dict[str, Callable[[int, int], nn.Module]] = {
    "stem": PlainStem,
    "head": lambda inputs, _: Head(inputs),
    "reduction": lambda inputs, outputs: ResidualReduction(inputs, outputs, SEARCH),
    "trained": lambda inputs, outputs: ResidualReduction(inputs, outputs, FULL),
}
SIZES = [(4, 8, 16, 16), (3, 16, 8, 8), (2, 5, 7, 9), (2, 1, 5, 1), (3, 17, 6, 3), (2, 3, 4, 4), (5, 24, 2, 2)]


def block(name: str, channels: int, seed: int = 1) -> nn.Module:
    chance, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    made = BLOCKS[name](channels, chance.choice([2 * channels, channels + 3])).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return made


def run(path: str, module: nn.Module, x: Tensor, wanted: str = "all") -> list[Tensor]:
    """Return the result and the gradients of images and parameters, all of them or of one kind alone."""
    module = copy.deepcopy(module).to(x.dtype)
    x = x.requires_grad_(wanted != "weights")
    for parameter in module.parameters():
        parameter.requires_grad_(wanted != "images")
    with kernels.using(path):
        y = module(x)
        leaves = [leaf for leaf in (x, *module.parameters()) if leaf.requires_grad]
        found = torch.autograd.grad((y * images(tuple(y.shape), 3, x.dtype)).sum(), leaves)
    return [y.detach(), *found, *(each.double() for each in module.buffers())]


def error(some: list[Tensor], others: list[Tensor]) -> float:
    return max(float((a - b).abs().max() / max(1.0, float(b.abs().max()))) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("name", BLOCKS)
def test_any_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for method in ("stem", "head", "reduction"):
        original = getattr(NativeBlocks, method)

        def watched(*arguments: object, called: Callable[..., object] = original) -> object:
            calls.append(called.__name__)
            return called(*arguments)

        monkeypatch.setattr(NativeBlocks, method, watched)
    for seed, size in enumerate(SIZES):
        module, x = block(name, size[1], seed), images(size, seed)
        assert error(run("native", module, x), run("plain", module, x)) < 1e-8, size
    assert calls == ["reduction" if name == "trained" else name] * len(SIZES)


@pytest.mark.parametrize("name", BLOCKS)
def test_float32_is_as_exact_as_torch(name: str) -> None:
    module, size = block(name, 8), (8, 8, 12, 12)
    exact, plain, fast = (
        run(path, module, images(size, 2, dtype))
        for path, dtype in (("plain", torch.float64), ("plain", torch.float32), ("native", torch.float32))
    )
    for e, p, f in zip(exact, plain, fast, strict=True):
        assert float((f - e).norm() / e.norm()) < max(3 * float((p - e).norm() / e.norm()), 3e-6)


@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_that_are_not_asked_for_change_nothing(name: str) -> None:
    module, x = block(name, 9), images((3, 9, 7, 6))
    y, of_images, *of_weights = run("native", module, x)
    alone, of_images_alone, *_ = run("native", module, x, "images")
    assert torch.equal(y, alone)
    assert torch.equal(of_images, of_images_alone)
    alone, *of_weights_alone = run("native", module, x, "weights")
    assert torch.equal(y, alone)
    assert all(map(torch.equal, of_weights, of_weights_alone))


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_every_time(name: str, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        module = block(name, 8)
        first, second = (run("native", module, images((5, 8, 9, 9), 0, torch.float32)) for _ in range(2))
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, first, second))


@pytest.mark.parametrize("name", BLOCKS)
def test_one_value_per_channel_is_refused(name: str) -> None:
    for path in ("plain", "native"):
        with kernels.using(path), pytest.raises(ValueError, match=r"more than (1|one) value per channel"):
            block(name, 4)(images((1, 4, 1, 1)))


@pytest.mark.parametrize("name", BLOCKS)
def test_a_second_derivative_is_an_error(name: str) -> None:
    x = images((2, 4, 6, 6)).requires_grad_()
    with kernels.using("native"), pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(block(name, 4)(x).sum(), x, create_graph=True)


def test_wide_reductions_and_norms_that_rest_are_computed_layer_by_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr("smallgroup.kernels.blocks._Reduction.apply", lambda *_: calls.append(1))
    x = images((2, 65, 2, 2))
    with kernels.using("native"):
        ResidualReduction(65, 129, SEARCH).double()(x)
        ResidualReduction(65, 64, FULL).double().eval()(x)
    assert calls == []
