"""The NAS-Bench-201 supernet: one cell, mixed, in three stages of growing width."""

from collections.abc import Mapping

from torch import Tensor, nn

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.edges import MixedNodes
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.layers import SEARCH
from smallgroup.spaces.nas_bench_201 import operations
from smallgroup.spaces.nas_bench_201.skeleton import Head, PlainStem, ResidualReduction, widths
from smallgroup.spaces.space import EdgeBuilder, Masks, Mixture


class NasBench201MixedCell(nn.Module):
    """Four nodes, the first the input, the last the output, each the sum of its incoming edges."""

    def __init__(self, kind: Kind, channels: int, build_edge: EdgeBuilder, mask: Tensor | None) -> None:
        super().__init__()
        strides, results = [1] * len(kind.edges), [max(node for _, node in kind.edges)]
        self.nodes = MixedNodes(kind, channels, strides, make=_make, build_edge=build_edge, mask=mask, results=results)

    def forward(self, inputs: Tensor, mixture: Mixture, cell: int) -> Tensor:
        """Return the values of the last node."""
        output: Tensor = self.nodes([inputs], mixture, cell)[-1]
        return output


class NasBench201Supernet(nn.Module):
    """The benchmark's skeleton around mixed cells."""

    def __init__(
        self,
        kind: Kind,
        *,
        channels: int,
        cells_per_stage: int,
        images: ImageSpec,
        build_edge: EdgeBuilder,
        masks: Masks,
    ) -> None:
        super().__init__()
        self.stem = PlainStem(images.channels, channels)
        self.blocks = nn.ModuleList()
        before = channels
        for width in widths(channels):
            if width != before:
                self.blocks.append(ResidualReduction(before, width, SEARCH))
            self.blocks.extend(
                NasBench201MixedCell(kind, width, build_edge, masks.get("cell")) for _ in range(cells_per_stage)
            )
            before = width
        self.last = Head(before)
        self.classifier = nn.Linear(before, images.classes)

    def forward(self, images: Tensor, mixtures: Mapping[str, Mixture]) -> Tensor:
        """Return the logits of a batch of images."""
        x: Tensor = self.stem(images)
        for i, block in enumerate(self.blocks):
            x = block(x, mixtures["cell"], i) if isinstance(block, NasBench201MixedCell) else block(x)
        logits: Tensor = self.classifier(self.last(x))
        return logits


def _make(name: str, channels: int, stride: int) -> nn.Module:
    assert stride == 1  # cells of this space keep the size
    return operations.build(name, channels, SEARCH)
