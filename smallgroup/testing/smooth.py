"""A tiny space whose networks are smooth functions: there finite differences have to agree with exact derivatives."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.edges import MixedNodes
from smallgroup.spaces.kinds import Kind, Rule
from smallgroup.spaces.layers import SEARCH, Zero, batch_norm
from smallgroup.spaces.space import EdgeBuilder, Masks, Mixture, checked_scores

OPERATIONS = ("none", "skip_connect", "tanh_conv_1x1", "softplus_conv_3x3", "avg_pool_3x3")


@dataclass(frozen=True)
class SmoothCell:
    """A genotype of `SmoothSpace`: the operations of its three edges."""

    operations: tuple[str, ...]

    space: ClassVar[str] = "smooth"

    @property
    def skips(self) -> int:
        """Return how many edges are skip connections."""
        return self.operations.count("skip_connect")


@dataclass(frozen=True)
class SmoothSpace:
    """A space for exact tests: three nodes, three edges, `cells` cells of one kind, no ReLU and no max pooling."""

    channels: int = 4
    cells: int = 2
    images: ImageSpec = field(default_factory=lambda: ImageSpec(classes=4, channels=2, size=6))

    name: ClassVar[str] = "smooth"
    kinds: ClassVar[Mapping[str, Kind]] = {"cell": Kind("cell", ((0, 1), (0, 2), (1, 2)), OPERATIONS)}

    def supernet(self, build_edge: EdgeBuilder, masks: Masks) -> nn.Module:
        """Build the supernet on the meta device."""
        with torch.device("meta"):
            return _Supernet(self, build_edge, masks)

    def derive(self, scores: Mapping[str, Tensor], rule: Rule) -> SmoothCell:  # noqa: ARG002
        """Return the best operation of every edge, whatever the rule; `none` only if nothing else is left."""
        rows = checked_scores(self.kinds, scores)["cell"]
        return SmoothCell(tuple(_best(row) for row in rows))

    def chosen(self, genotype: SmoothCell) -> dict[str, Tensor]:
        """Return one for the operation of every edge, zero for the rest."""
        return {"cell": torch.tensor([[float(name == one) for name in OPERATIONS] for one in genotype.operations])}


def _best(row: list[float]) -> str:
    real = row[1:]
    return "none" if max(real) == -math.inf else OPERATIONS[1 + real.index(max(real))]


class _Supernet(nn.Module):
    def __init__(self, space: SmoothSpace, build_edge: EdgeBuilder, masks: Masks) -> None:
        super().__init__()
        kind, channels = space.kinds["cell"], space.channels
        self.stem = nn.Conv2d(space.images.channels, channels, 3, padding=1, bias=False)
        self.norm = batch_norm(channels, SEARCH, affine=True)
        self.cells = nn.ModuleList(
            MixedNodes(kind, channels, [1, 1, 1], make=_make, build_edge=build_edge, mask=masks.get("cell"))
            for _ in range(space.cells)
        )
        self.classifier = nn.Linear(channels, space.images.classes)

    def forward(self, images: Tensor, mixtures: Mapping[str, Mixture]) -> Tensor:
        x: Tensor = self.norm(self.stem(images))
        for i, cell in enumerate(self.cells):
            x = cell([x], mixtures["cell"], i)[-1]
        logits: Tensor = self.classifier(x.tanh().mean(dim=(2, 3)))
        return logits


def _make(name: str, channels: int, stride: int) -> nn.Module:
    assert stride == 1  # cells of this space keep the size
    match name:
        case "none":
            return Zero(1)
        case "skip_connect":
            return nn.Identity()
        case "avg_pool_3x3":
            return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    kernel = 1 if name == "tanh_conv_1x1" else 3
    return nn.Sequential(
        nn.Tanh() if kernel == 1 else nn.Softplus(),
        nn.Conv2d(channels, channels, kernel, padding=kernel // 2, bias=False),
        batch_norm(channels, SEARCH),
    )
