"""Networks that somebody would write who does not search: a plain CNN and a ResNet.

They are built and trained by the same code as a derived network, and are of any width: `channels` of the design are
those of the first layers, `cells_per_stage` the blocks of a stage, `halvings` the poolings before the first of three
stages, `pooling` what makes a vector of the last map.
"""

from collections.abc import Callable
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.phases.training.trainee import Build
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.layers import POOLINGS
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.weights import initialize


class PlainDesign(Protocol):
    """The fields of a derived network's design that these networks use."""

    images: ImageSpec
    channels: int
    cells_per_stage: int
    halvings: int
    pooling: str


class _Plain(DerivedNetwork):
    """A body that ends in a vector per image, and a linear layer."""

    def __init__(self, layers: list[nn.Module], width: int, design: PlainDesign) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers, POOLINGS[design.pooling](1))
        self.classifier = nn.Linear(width, design.images.classes)

    def forward(self, images: Tensor, key: object = None) -> Tensor:  # noqa: ARG002 -- as derived networks
        """Compute logits of images [n, channels, height, width]."""
        logits: Tensor = self.classifier(self.body(images).flatten(1))
        return logits


def _conv(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


def _stem(design: PlainDesign) -> list[nn.Module]:
    layers = _conv(design.images.channels, design.channels)
    for _ in range(design.halvings):
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return layers


class Residual(nn.Module):
    """Two convolutions beside a shortcut (He et al., 2016); the first may halve the size."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_conv(inputs, outputs, stride), *_conv(outputs, outputs)[:2])
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.AvgPool2d(stride, ceil_mode=True) if stride > 1 else nn.Identity(),
                nn.Conv2d(inputs, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the block and its shortcut."""
        return functional.relu(self.body(x) + self.shortcut(x))


def _cnn(design: PlainDesign) -> DerivedNetwork:
    """Return three convolutions with pooling between them, each twice as wide as the one before."""
    c = design.channels
    layers = [*_stem(design), *_conv(c, 2 * c), nn.MaxPool2d(2, ceil_mode=True), *_conv(2 * c, 4 * c)]
    return _Plain(layers, 4 * c, design)


def _resnet(design: PlainDesign) -> DerivedNetwork:
    """Return a stem and three stages of residual blocks, each stage twice as wide as the one before."""
    layers, inputs = _stem(design), design.channels
    for stage in range(3):
        width = design.channels * 2**stage
        for block in range(design.cells_per_stage):
            layers.append(Residual(inputs, width, 2 if stage and not block else 1))
            inputs = width
    return _Plain(layers, inputs, design)


def _builder(make: Callable[[PlainDesign], DerivedNetwork]) -> Build:
    def build(
        _: Genotype,
        design: NetworkDesign,
        /,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ) -> DerivedNetwork:
        with torch.device("meta"):
            network = make(cast(PlainDesign, design))  # arms are networks of such a space
        where = torch.device("cpu" if device is None else device)
        if where.type != "meta":
            initialize(network, generator or stream("network", "weights"), where)
        return network

    return build


build_cnn, build_resnet = _builder(_cnn), _builder(_resnet)
