"""Networks that are trained from scratch, on every path: all that a step of training leaves behind."""

import copy

import pytest
import torch
from torch import Tensor, nn

from smallgroup import kernels
from smallgroup.networks import NetworkDesign, build_network
from smallgroup.networks.outputs import Outputs
from smallgroup.spaces.genotypes import resolve
from tests.kernels.layers import images

FAST = [path for path in kernels.available() if path != "plain"]
BENCHMARK = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"
DESIGNS = {
    "DARTS_V2": NetworkDesign(classes=4, image_size=32, channels=6, cells=3, auxiliary="two-norms", drop_path=0.3),
    "NASNet_A": NetworkDesign(classes=4, image_size=16, channels=10, cells=3),
    "AmoebaNet_A": NetworkDesign(classes=4, image_size=16, channels=4, cells=3),
    BENCHMARK: NetworkDesign(classes=4, image_size=16, channels=5, cells_per_stage=1),
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
def test_a_step_of_training_is_the_same(name: str, path: str) -> None:
    design = DESIGNS[name]
    network = build_network(resolve(name)[1], design)
    x = images((4, 3, design.image_size, design.image_size))
    plain, after_plain = stepped("plain", network, x)
    fast, after_fast = stepped(path, network, x)
    for found, expected in zip(fast, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
    for (n, found), (m, expected) in zip(after_fast.named_buffers(), after_plain.named_buffers(), strict=True):
        assert n == m
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
