"""The chain space at a given size, and its supernet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from smallgroup.runtime.bounds import check_parameters
from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.edges import MixedEdges
from smallgroup.spaces.kinds import Kind, Rule
from smallgroup.spaces.layers import SEARCH
from smallgroup.spaces.proxyless.blocks import build, build_head, build_stem
from smallgroup.spaces.proxyless.genotype import Chain
from smallgroup.spaces.proxyless.names import KIND, NONE, OPERATIONS, STRIDES, Layer, head_channels, layers
from smallgroup.spaces.space import EdgeBuilder, EdgeParts, Masks, Mixture, checked_scores, remaining


@dataclass(frozen=True)
class ProxylessSpace:
    """A chain of 21 layers, each with one of six inverted residual blocks; 15 of them may be left out.

    The paper searches at 16 channels.
    """

    channels: int = 16
    form: str = "cifar"
    images: ImageSpec = field(default_factory=ImageSpec)

    name: ClassVar[str] = "proxyless"
    kinds: ClassVar[Mapping[str, Kind]] = {"chain": KIND}

    def __post_init__(self) -> None:
        check_choice("form", self.form, tuple(STRIDES))
        check_counts(channels=self.channels, at_least=2)
        if self.channels % 2:
            raise ValueError(f"channels of proxyless must be even, but got {self.channels}")

    def supernet(self, build_edge: EdgeBuilder, masks: Masks) -> nn.Module:
        """Build the supernet, on the meta device."""
        with torch.device("meta"):
            return ProxylessSupernet(self, build_edge, masks.get("chain"))

    def derive(self, scores: Mapping[str, Tensor], rule: Rule) -> Chain:
        """Return the chain of the best operation of each layer: here `none` is a choice like any other.

        With a threshold, a layer in which nothing reaches it is left out, if it may be.
        """
        rows = checked_scores(self.kinds, scores)["chain"]
        return Chain(tuple(_best(KIND.offered(layer), row, rule) for layer, row in enumerate(rows)))

    def chosen(self, genotype: Chain) -> dict[str, Tensor]:
        """Return one for the operation of every layer, zero for the rest."""
        return {"chain": torch.tensor([[float(name == own) for name in OPERATIONS] for own in genotype.operations])}


class ProxylessSupernet(nn.Module):
    """Stem, a block without a choice, the chain, a 1x1 convolution, global average pooling, linear classifier."""

    def __init__(self, space: ProxylessSpace, build_edge: EdgeBuilder, mask: Tensor | None) -> None:
        super().__init__()
        sizes = layers(space.channels, space.form)
        self.stem = build_stem(space.images.channels, space.channels, space.form, SEARCH)
        self.chain = MixedChain(sizes, build_edge, mask)
        self.head = build_head(sizes[-1].outputs, space.channels, SEARCH)
        self.classifier = nn.Linear(head_channels(space.channels), space.images.classes)
        check_parameters(sum(parameter.numel() for parameter in self.parameters()))

    def forward(self, images: Tensor, mixtures: Mapping[str, Mixture]) -> Tensor:
        """Return the logits of a batch of images."""
        last = self.head(self.chain(self.stem(images), mixtures["chain"]))
        logits: Tensor = self.classifier(last.mean(dim=(2, 3)))
        return logits


class MixedChain(MixedEdges):
    """Mixed layers, one behind the other, with a shortcut around those that keep the shape."""

    def __init__(self, sizes: list[Layer], build_edge: EdgeBuilder, mask: Tensor | None) -> None:
        super().__init__()
        self.kind = KIND
        self.shortcuts = [size.shortcut for size in sizes]
        self.edges = nn.ModuleList(
            build_edge(
                EdgeParts(remaining(KIND, mask, e), size.inputs, size.stride, partial(_make, size), size.outputs)
            )
            for e, size in enumerate(sizes)
        )

    def forward(self, x: Tensor, mixture: Mixture) -> Tensor:
        """Compute the output of the last layer."""
        for e, (edge, shortcut) in enumerate(zip(self.edges, self.shortcuts, strict=True)):
            output = mixture.scaled(e, edge(x, mixture.choice(0, e)))
            x = x + output if shortcut else output
        return x


def _make(size: Layer, name: str, channels: int, stride: int) -> nn.Module:
    """Build an operation; on a part of the channels, if a method asks for that."""
    return build(name, channels, size.outputs if channels == size.inputs else channels, stride, SEARCH)


def _best(offered: tuple[str, ...], row: list[float], rule: Rule) -> str:
    """Return the operation with the highest score, the first of equal ones, or `none` below a threshold."""
    score, name = max(zip(row, OPERATIONS, strict=True), key=lambda pair: pair[0])
    if rule.name == "threshold" and score < rule.threshold and NONE in offered:
        return NONE
    return name
