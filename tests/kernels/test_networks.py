"""Networks that are trained from scratch, on every path: all that a step of training leaves behind."""

import copy

import pytest
import torch
from torch import Tensor, nn

from smallgroup import kernels
from smallgroup.kernels import norms
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.genotypes import resolve
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.networks import build_network
from smallgroup.spaces.outputs import Outputs
from tests.kernels.layers import images

FAST = [path for path in kernels.available() if path != "plain"]
BENCHMARK = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"
DESIGNS = {
    "DARTS_V2": DartsDesign(images=ImageSpec(4, 3, 32), channels=6, cells=3, auxiliary="two-norms", drop_path=0.3),
    "NASNet_A": DartsDesign(images=ImageSpec(4, 3, 16), channels=10, cells=3),
    "PDARTS": DartsDesign(images=ImageSpec(4, 3, 64), channels=6, cells=4, stem="imagenet"),
    "AmoebaNet_A": DartsDesign(images=ImageSpec(4, 3, 16), channels=4, cells=3),
    BENCHMARK: NasBench201Design(images=ImageSpec(4, 3, 16), channels=5, cells_per_stage=1),
}


def stepped(path: str, network: nn.Module, x: Tensor) -> tuple[list[Tensor], nn.Module]:
    """Logits and all gradients of a step, and the network after it."""
    network = copy.deepcopy(network).double().train()
    with kernels.using(path):
        found = network(x, ("key", 1))
        logits = [each for each in found if each is not None] if isinstance(found, Outputs) else [found]
        total = torch.stack([nn.functional.cross_entropy(each, torch.arange(4) % 4) for each in logits]).sum()
        gradients = torch.autograd.grad(total, list(network.parameters()))
    return [*(each.detach() for each in logits), *gradients], network


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("name", DESIGNS)
def test_a_step_of_training_is_the_same(name: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norms, "_LARGE", 0)  # as on large images
    design = DESIGNS[name]
    network = build_network(resolve(name)[1], design)
    x = images((4, *design.images.shape))
    plain, after_plain = stepped("plain", network, x)
    fast, after_fast = stepped(path, network, x)
    for found, expected in zip(fast, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
    for (n, found), (m, expected) in zip(after_fast.named_buffers(), after_plain.named_buffers(), strict=True):
        assert n == m
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("path", FAST)
def test_norms_of_one_cell_may_move_at_different_rates(path: str) -> None:
    """Also as means over all batches (momentum None), which depend on how many there were."""
    network = build_network(resolve("DARTS_V2")[1], DartsDesign(images=ImageSpec(4, 3, 16), channels=6, cells=3))
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for number, norm in enumerate(norms):
        norm.momentum = (None, 0.1, 0.3)[number % 3]
    both = []
    for each in ("plain", path):
        after: nn.Module = network
        for step in range(3):
            _, after = stepped(each, after, images((4, 3, 16, 16), step))
        both.append(dict(after.named_buffers()))
    for name, expected in both[0].items():
        torch.testing.assert_close(both[1][name], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("path", FAST)
def test_norms_that_are_replaced_and_frozen_are_noticed(path: str) -> None:
    network = build_network(resolve("DARTS_V2")[1], DartsDesign(images=ImageSpec(4, 3, 16), channels=6, cells=3))
    network.double().train()
    x = images((4, 3, 16, 16))
    network(x)  # away from the averages that all norms begin with
    for module in network.modules():
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, copy.deepcopy(child).eval())
    with kernels.using("plain"):
        expected = network(x)
    with kernels.using(path):
        torch.testing.assert_close(network(x), expected)


@pytest.mark.parametrize("frozen", range(4))
@pytest.mark.parametrize("path", FAST)
def test_a_frozen_cell_among_others(path: str, frozen: int) -> None:
    """Its neighbors take the fast path, and it shares the inputs of theirs."""
    network = build_network(resolve("DARTS_V2")[1], DartsDesign(images=ImageSpec(4, 3, 16), channels=6, cells=4))
    x = images((4, 3, 16, 16))

    def found(each: str) -> list[Tensor]:
        own = copy.deepcopy(network).double().train()
        for part in own.cells[frozen].modules():  # type: ignore[index, union-attr]
            if isinstance(part, nn.BatchNorm2d):
                part.eval()
        with kernels.using(each):
            logits = own(x)
            gradients = torch.autograd.grad(logits.square().sum(), list(own.parameters()))
        return [logits.detach(), *gradients, *own.buffers()]

    for fast, plain in zip(found(path), found("plain"), strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("path", FAST)
def test_no_images_at_all(path: str) -> None:
    network = build_network(resolve("DARTS_V2")[1], DartsDesign(images=ImageSpec(4, 3, 16), channels=6, cells=3))
    network.train()
    with kernels.using(path):
        assert network(torch.zeros(0, 3, 16, 16)).shape == (0, 4)
