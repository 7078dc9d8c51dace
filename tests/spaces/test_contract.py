"""The built-in spaces, and the smooth one of the contracts, keep to the contract."""

from typing import Any

import torch
from torch import Tensor, nn

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Genotype
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Mixture, Space
from smallgroup.testing import DefinitionContract, SmoothSpace, SpaceContract
from smallgroup.testing.small import small_network


class TestDarts(DefinitionContract):
    name = "darts"


class TestNasBench201(DefinitionContract):
    name = "nas-bench-201"


class OtherSize(SpaceContract):
    def network(self, genotype: Genotype) -> nn.Module:
        return small_network(genotype)


class TestDartsCifarStem(OtherSize):
    def space(self) -> Space:
        return DartsSpace(channels=2, cells=3, images=ImageSpec(4, 3, 8))


class TestDartsImageNetStem(OtherSize):
    def space(self) -> Space:
        return DartsSpace(channels=2, cells=3, stem="imagenet", images=ImageSpec(4, 3, 40))


class TestNasBench201OddSize(OtherSize):
    def space(self) -> Space:
        return NasBench201Space(channels=3, cells_per_stage=1, images=ImageSpec(4, 3, 7))


class Fixed(nn.Module):
    """A supernet with its mixture bound: the derived network of the smooth space."""

    def __init__(self, genotype: Any) -> None:
        super().__init__()
        space = SmoothSpace()
        self.supernet = space.supernet(MixedEdge, {})
        with torch.device("cpu"):
            self.chosen = space.chosen(genotype)["cell"]

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.supernet(images, {"cell": Mixture(self.chosen)})
        return logits


class TestSmooth(SpaceContract):
    def space(self) -> Space:
        return SmoothSpace()

    def network(self, genotype: Any) -> nn.Module:
        return Fixed(genotype)
