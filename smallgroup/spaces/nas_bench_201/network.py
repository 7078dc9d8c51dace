"""The network of the NAS-Bench-201 benchmark, around one of its cells."""

from torch import Tensor, nn

from smallgroup.spaces.drop_path import Key
from smallgroup.spaces.layers import FULL, POOLINGS, batch_norm
from smallgroup.spaces.layout import laid_out
from smallgroup.spaces.nas_bench_201.cell import EDGES, Cell
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.nas_bench_201.operations import build
from smallgroup.spaces.nas_bench_201.skeleton import PoolReduction, ResidualReduction, widths
from smallgroup.spaces.network import DerivedNetwork

REDUCTIONS = {"residual": ResidualReduction, "pool": PoolReduction}
"""What stands between two stages: the benchmark's residual block, or a convolution and max pooling."""


class NasBench201Network(DerivedNetwork):
    """Stem, three stages of equal cells with a residual block of half the size between them, average, linear layer.

    The benchmark trains it without auxiliary head and drop path, and so do we: nothing leads around a cell, and an
    image whose paths are all dropped in one would be lost. Its stem keeps the size of the image; `halvings` of it make
    all that follows cheaper, and wider for the same cost. Its reductions are residual blocks; `pool` reductions learn
    faster in short trainings.
    """

    def __init__(self, cell: Cell, design: NasBench201Design) -> None:
        super().__init__()
        self.genotype = cell
        channels = last = design.channels
        blocks = _stem(design.images.channels, channels, design.halvings)
        for width in widths(channels, design.stages):
            if width > channels:
                blocks.append(REDUCTIONS[design.reduction](width // 2, width, FULL))
            blocks += [_Cell(cell, width) for _ in range(design.cells_per_stage)]
            last = width
        self.body = nn.Sequential(*blocks, batch_norm(last, FULL), nn.ReLU(), POOLINGS[design.pooling](1))
        self.classifier = nn.Linear(last, design.images.classes)

    def forward(self, images: Tensor, key: Key | None = None) -> Tensor:  # noqa: ARG002 -- as in the DARTS space
        """Compute logits [n, classes] of images. Nothing here is random, so the key is not used."""
        logits: Tensor = self.classifier(self.body(laid_out(images)).flatten(1))
        return logits


def _stem(image_channels: int, channels: int, halvings: int) -> list[nn.Module]:
    """Build a convolution and its norm, as in the benchmark; each halving is one of those followed by max pooling.

    Before each halving but the last the width is halved too: it doubles where the size is halved, as between stages.
    """
    layers: list[nn.Module] = []
    inputs = image_channels
    for number in range(max(1, halvings)):
        layers += [nn.ReLU()] if number else []
        outputs = max(1, channels >> (max(1, halvings) - 1 - number))
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), batch_norm(outputs, FULL)]
        inputs = outputs
        # Rounding up: images of odd sizes keep their last row and column.
        layers += [nn.MaxPool2d(2, ceil_mode=True)] if halvings else []
    return layers


class _Cell(nn.Module):
    """Every node is the sum of its six edges' terms that lead to it; the last node is the output."""

    def __init__(self, cell: Cell, channels: int) -> None:
        super().__init__()
        self.operations = nn.ModuleList(build(operation, channels, FULL) for operation in cell.operations)

    def forward(self, inputs: Tensor) -> Tensor:
        states = {0: inputs}
        for (node, source), operation in zip(EDGES, self.operations, strict=True):
            term: Tensor = operation(states[source])
            states[node] = states[node] + term if node in states else term
        return states[max(states)]
