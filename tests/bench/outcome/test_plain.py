"""The networks of somebody who does not search."""

import pytest
import torch
from torch import nn

from smallgroup.bench.outcome.arms import RESNET
from smallgroup.bench.outcome.plain import build_cnn, build_resnet
from smallgroup.phases.training.size import of_same_cost, size_of
from smallgroup.phases.training.trainee import Build
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.count import parameters
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from tests.configs import FULL_SIZE

BUILDERS = {"cnn": build_cnn, "resnet": build_resnet}


def design(**more: object) -> NetworkDesign:
    return NasBench201Design(images=ImageSpec(7, 1, 28), channels=8, cells_per_stage=1, **more)  # type: ignore[arg-type]


def convolution(inputs: int, outputs: int, size: int = 3) -> int:
    """Parameters with those of the batch norm behind it."""
    return size * size * inputs * outputs + 2 * outputs


def test_parameters_by_hand() -> None:
    cnn = convolution(1, 8) + convolution(8, 16) + convolution(16, 32) + 32 * 7 + 7
    assert parameters(build_cnn(RESNET, design())) == cnn
    blocks = 2 * convolution(8, 8)
    for inputs in (8, 16):
        outputs = 2 * inputs
        blocks += convolution(inputs, outputs) + convolution(outputs, outputs) + convolution(inputs, outputs, 1)
    assert parameters(build_resnet(RESNET, design())) == convolution(1, 8) + blocks + 32 * 7 + 7


@pytest.mark.parametrize("name", BUILDERS)
def test_weights_are_drawn_from_the_stream_and_every_one_counts(name: str) -> None:
    build: Build = BUILDERS[name]
    one, same, other = (build(RESNET, design(halvings=1), generator=stream(seed)) for seed in (1, 1, 2))
    images = torch.rand(4, 1, 28, 28, generator=stream(3))
    assert torch.equal(one(images), same(images))
    assert not torch.equal(one(images), other(images))
    loss: torch.Tensor = one(images).square().sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None and bool(weight.grad.abs().sum() > 0) for weight in one.parameters())


@pytest.mark.parametrize("name", BUILDERS)
def test_a_network_of_the_same_cost(name: str) -> None:
    """No other width is nearer."""
    network, images = NetworkConfig(**FULL_SIZE, channels=8, cells_per_stage=1, auxiliary="none"), ImageSpec(7, 1, 28)
    found = of_same_cost(RESNET, network, 2_000_000, images, BUILDERS[name]).channels

    def cost(channels: int) -> float:
        sized = size_of(RESNET, network.model_copy(update={"channels": channels}), images, BUILDERS[name])
        return abs(torch.tensor(sized.multiply_adds / 2_000_000).log().item())

    assert cost(found) <= min(cost(found - 1), cost(found + 1))


def test_pooling_at_the_end_is_that_of_the_design() -> None:
    for pooling, kind in (("average", nn.AdaptiveAvgPool2d), ("maximum", nn.AdaptiveMaxPool2d)):
        network = build_resnet(RESNET, design(pooling=pooling))
        assert any(isinstance(layer, kind) for layer in network.modules())
