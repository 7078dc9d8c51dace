"""The network that is trained from scratch once a search in the chain space is over."""

import torch
from torch import Tensor, nn

from smallgroup.spaces.drop_path import Key
from smallgroup.spaces.layers import FULL
from smallgroup.spaces.layout import laid_out
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.proxyless.blocks import build, build_head, build_stem
from smallgroup.spaces.proxyless.design import ProxylessDesign
from smallgroup.spaces.proxyless.genotype import Chain
from smallgroup.spaces.proxyless.names import NONE, head_channels, layers


class ProxylessNetwork(DerivedNetwork):
    """Stem, a block without a choice, the blocks that are not left out, a 1x1 convolution, average, linear layer."""

    def __init__(self, genotype: Chain, design: ProxylessDesign) -> None:
        super().__init__()
        self.genotype = genotype
        sizes = layers(design.channels, design.strides, design.widths)
        kept = [(size, name) for size, name in zip(sizes, genotype.operations, strict=True) if name != NONE]
        self.stem = build_stem(design.images.channels, design.channels, design.strides, FULL, design.widths)
        self.blocks = nn.ModuleList(build(name, *size, FULL) for size, name in kept)
        self.shortcuts = [size.shortcut for size, _ in kept]
        self.head = build_head(sizes[-1].outputs, design.channels, FULL, design.widths)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(head_channels(design.channels, design.widths), design.images.classes)

    def forward(self, images: Tensor, key: Key | None = None) -> Tensor:  # noqa: ARG002 -- nothing is random in it
        """Compute logits [n, classes] of images [n, image_channels, height, width]."""
        x = self.stem(laid_out(images))
        for block, shortcut in zip(self.blocks, self.shortcuts, strict=True):
            x = x + block(x) if shortcut else block(x)
        logits: Tensor = self.classifier(torch.flatten(self.pool(self.head(x)), 1))
        return logits
