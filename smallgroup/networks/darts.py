"""The network that is trained from scratch once a search in the DARTS space is over."""

import torch
from torch import Tensor, nn

from smallgroup.runtime.checks import check_counts
from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, Genotype
from smallgroup.spaces.darts.operations import build
from smallgroup.spaces.darts.skeleton import build_stem, reduction_cells
from smallgroup.spaces.layers import FULL, FactorizedReduce, relu_conv_norm


class DartsNetwork(nn.Module):
    """Stem, a stack of cells that halves the size and doubles the channels twice, average over the image, linear layer.

    `channels` are those of a node in the first cells. Any image size works that the stem leaves at least a pixel of.
    """

    def __init__(
        self,
        genotype: Genotype,
        *,
        channels: int = 36,
        cells: int = 20,
        classes: int = 10,
        stem: str = "cifar",
        image_channels: int = 3,
    ) -> None:
        super().__init__()
        check_counts(channels=channels, cells=cells, classes=classes, image_channels=image_channels)
        reductions = reduction_cells(cells)
        self.genotype = genotype
        self.stem = build_stem(stem, image_channels, channels, FULL)
        self.cells = nn.ModuleList()
        inputs, halved = self.stem.channels, self.stem.reduction_before
        for index in range(cells):
            reduction = index in reductions
            channels *= 2 if reduction else 1
            cell = _Cell(
                genotype.reduce if reduction else genotype.normal, inputs, channels, reduction=reduction, halved=halved
            )
            self.cells.append(cell)
            inputs, halved = (inputs[1], cell.channels), reduction
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(inputs[1], classes)

    def forward(self, images: Tensor) -> Tensor:
        """[n, image_channels, height, width] to logits [n, classes]."""
        before, last = self.stem(images)
        for cell in self.cells:
            before, last = last, cell(before, last)
        logits: Tensor = self.classifier(self.pool(last).flatten(1))
        return logits


class _Cell(nn.Module):
    """One cell. `halved`: the first input is twice the size of the second, as the cell in between was a reduction."""

    def __init__(
        self, genotype: CellGenotype, inputs: tuple[int, int], channels: int, *, reduction: bool, halved: bool
    ) -> None:
        super().__init__()
        first = FactorizedReduce if halved else relu_conv_norm
        self.preprocess0 = first(inputs[0], channels, FULL)
        self.preprocess1 = relu_conv_norm(inputs[1], channels, FULL)
        self.channels = len(genotype.concat) * channels
        self.concat = genotype.concat
        edges = [(node, edge) for node, into in enumerate(genotype.nodes, start=INPUTS) for edge in into]
        self.edges = tuple((node, edge.source) for node, edge in edges)
        # Only what comes from outside a reduction cell is still of the old size.
        self.operations = nn.ModuleList(
            build(edge.operation, channels, 2 if reduction and edge.source < INPUTS else 1, FULL) for _, edge in edges
        )

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        """Every node is the sum of its edges; the output is the nodes of `concat` side by side."""
        states: dict[int, Tensor] = {0: self.preprocess0(before), 1: self.preprocess1(last)}
        for (node, source), operation in zip(self.edges, self.operations, strict=True):
            term: Tensor = operation(states[source])
            states[node] = states[node] + term if node in states else term
        return torch.cat([states[node] for node in self.concat], dim=1)
