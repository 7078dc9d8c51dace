"""Whole supernets of every method on every path, and only the gradients that are asked for."""

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

from smallgroup import kernels
from smallgroup.kernels import Term
from smallgroup.kernels.native import Native
from smallgroup.methods import METHODS, Relaxed
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Space
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from tests.kernels.layers import images

FAST = [path for path in kernels.available() if path != "plain"]
SPACES: dict[str, Space] = {
    "darts": DartsSpace(channels=4, cells=3, images=ImageSpec(10, 3, 9)),
    "nas-bench-201": NasBench201Space(channels=4, cells_per_stage=1, images=ImageSpec(10, 3, 9)),
}
RUN = ("darts", "darts-minus", "fair-darts", "gdas", "merge-nas", "p-darts", "pc-darts", "proxyless")
"""Methods that differ in what runs on an edge; the others differ from them in the mixing weights."""
PAIRS = [(space, method) for space in SPACES for method in RUN if (space, method) != ("nas-bench-201", "p-darts")]


def learner(
    space: str, method: str, dtype: torch.dtype = torch.float64
) -> tuple[Relaxed, dict[str, Tensor], dict[str, Tensor]]:
    relaxed = Relaxed(SPACES[space], METHODS[method](), seed=1)
    relaxed.method.state["dropout"] = torch.tensor(0.3)  # of P-DARTS; the others do not look
    generator = torch.Generator().manual_seed(2)
    architecture = {
        name: tensor + torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(dtype)
        for name, tensor in relaxed.initial_architecture(dtype=dtype).items()
    }
    weights = {
        # Scales, shifts and biases begin at one and zero, where a path that forgets them gives the same numbers.
        name: tensor + 0.3 * torch.randn(tensor.shape, generator=generator).to(dtype) if tensor.dim() == 1 else tensor
        for name, tensor in relaxed.initial_weights("w", dtype=dtype).items()
    }
    return relaxed, weights, architecture


def loss_and_gradients(
    path: str, space: str, method: str, *, of_weights: bool = True, of_architecture: bool = True
) -> tuple[Tensor, dict[str, Tensor | None]]:
    relaxed, weights, architecture = learner(space, method)
    weights = {name: tensor.requires_grad_(of_weights) for name, tensor in weights.items()}
    architecture = {name: tensor.requires_grad_(of_architecture) for name, tensor in architecture.items()}
    leaves = (weights if of_weights else {}) | (architecture if of_architecture else {})
    relaxed.begin_step(3)
    with kernels.using(path):
        logits = relaxed(weights, architecture, images((4, 3, 9, 9)), phase="w")
        loss = functional.cross_entropy(logits, torch.tensor([0, 1, 2, 3]))
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return loss.detach(), dict(zip(leaves, found, strict=True))


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize(("space", "method"), PAIRS)
def test_a_supernet_is_the_same_function(space: str, method: str, path: str) -> None:
    loss, plain = loss_and_gradients("plain", space, method)
    other, fast = loss_and_gradients(path, space, method)
    torch.testing.assert_close(other, loss, rtol=1e-12, atol=1e-12)
    assert {n for n, g in plain.items() if g is None} == {n for n, g in fast.items() if g is None}
    for name, expected in plain.items():
        if expected is not None:
            torch.testing.assert_close(fast[name], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("method", ["darts", "pc-darts", "p-darts"])
def test_gradients_that_are_not_asked_for_change_nothing(method: str, path: str) -> None:
    _, both = loss_and_gradients(path, "darts", method)
    _, weights = loss_and_gradients(path, "darts", method, of_architecture=False)
    _, architecture = loss_and_gradients(path, "darts", method, of_weights=False)
    for name, gradient in (weights | architecture).items():
        expected = both[name]
        assert (gradient is None) == (expected is None)
        if gradient is not None and expected is not None:
            assert torch.equal(gradient, expected), name


@pytest.mark.parametrize("path", FAST)
def test_float32_is_float64_rounded(path: str) -> None:
    relaxed, weights, architecture = learner("darts", "darts")
    x = images((4, 3, 9, 9))
    with kernels.using("plain"):
        exact = relaxed(weights, architecture, x)
    with kernels.using(path):
        found = relaxed(
            {n: t.float() for n, t in weights.items()}, {n: t.float() for n, t in architecture.items()}, x.float()
        )
    assert float((found - exact).norm() / exact.norm()) < 1e-5


def test_forward_mode_takes_the_plain_path() -> None:
    x = images((1, 1, 2, 2))
    for path in FAST:
        with kernels.using(path):
            assert kernels.backend_for(x) is not None
            with forward_ad.dual_level():
                assert kernels.backend_for(x) is None


def test_what_has_the_plain_path_only() -> None:
    x = images((1, 1, 2, 2))
    for path in FAST:
        with kernels.using(path):
            assert kernels.backend_for(x.bfloat16()) is None
            assert kernels.backend_for(x.to("meta")) is None
            with torch.autocast("cpu", dtype=torch.bfloat16):
                assert kernels.backend_for(x) is None
    with kernels.using("plain"):
        assert kernels.backend_for(x) is None


def test_pools_are_computed_once_per_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five sources per cell, two kinds of pooling each, where the plain form has 14 edges."""
    if "native" not in FAST:
        pytest.skip("there are no native kernels here")
    calls = []
    pool = Native.pool

    def counted(self: Native, x: Tensor, *, average: bool, stride: int, normed: bool) -> Term:
        calls.append(average)
        return pool(self, x, average=average, stride=stride, normed=normed)

    monkeypatch.setattr(Native, "pool", counted)
    relaxed, weights, architecture = learner("darts", "darts")
    with kernels.using("native"):
        relaxed(weights, architecture, images((4, 3, 9, 9)))
    assert len(calls) == 3 * 5 * 2
