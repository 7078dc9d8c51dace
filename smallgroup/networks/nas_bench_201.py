"""The network of the NAS-Bench-201 benchmark, around one of its cells."""

from torch import Tensor, nn

from smallgroup.networks.checks import check_counts
from smallgroup.spaces.layers import FULL, batch_norm, relu_conv_norm
from smallgroup.spaces.nas_bench_201.cell import EDGES, Cell
from smallgroup.spaces.nas_bench_201.operations import build


class NasBench201Network(nn.Module):
    """Stem, three stages of equal cells with a residual block of half the size between them, average, linear layer."""

    def __init__(
        self,
        cell: Cell,
        *,
        channels: int = 16,
        cells_per_stage: int = 5,
        classes: int = 10,
        image_channels: int = 3,
    ) -> None:
        super().__init__()
        check_counts(channels=channels, cells_per_stage=cells_per_stage, classes=classes, image_channels=image_channels)
        self.genotype = cell
        stem = nn.Conv2d(image_channels, channels, 3, padding=1, bias=False)
        blocks: list[nn.Module] = [stem, batch_norm(channels, FULL)]
        for width in (channels, 2 * channels, 4 * channels):
            if width > channels:
                blocks.append(_ResidualBlock(width // 2, width))
            blocks += [_Cell(cell, width) for _ in range(cells_per_stage)]
        self.body = nn.Sequential(*blocks, batch_norm(4 * channels, FULL), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(4 * channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        """[n, image_channels, height, width] to logits [n, classes]."""
        logits: Tensor = self.classifier(self.body(images).flatten(1))
        return logits


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


class _ResidualBlock(nn.Module):
    """Half the size: two 3x3 convolutions, beside an average over 2x2 pixels and a 1x1 convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            relu_conv_norm(inputs, outputs, FULL, kernel=3, stride=2), relu_conv_norm(outputs, outputs, FULL, kernel=3)
        )
        # Rounded up like the strided convolution, so that images of odd size fit.
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, stride=2, ceil_mode=True), nn.Conv2d(inputs, outputs, 1, bias=False)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        term: Tensor = self.convolutions(inputs)
        shortcut: Tensor = self.shortcut(inputs)
        return term + shortcut
