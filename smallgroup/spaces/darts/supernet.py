"""The DARTS supernet: a stack of cells in which every edge mixes all operations."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from smallgroup.runtime.bounds import check_parameters
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import operations
from smallgroup.spaces.darts.genotype import INPUTS
from smallgroup.spaces.darts.skeleton import Stem, build_stem, reduction_cells
from smallgroup.spaces.edges import MixedNodes
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.layers import SEARCH, FactorizedReduce, relu_conv_norm
from smallgroup.spaces.space import EdgeBuilder, Masks, Mixture


class CellPlan(NamedTuple):
    """The facts that decide the weights of a cell; in a deep network most cells have the plan of an earlier one."""

    kind: str
    inputs: tuple[int, int]
    """Channels of the outputs of the two cells before."""
    channels: int
    reduction_before: bool


class DartsMixedCell(nn.Module):
    """Two inputs, four nodes, every node a sum over all nodes before it; the output is all nodes side by side."""

    def __init__(
        self,
        kind: Kind,
        inputs: tuple[int, int],
        channels: int,
        *,
        reduction: bool,
        reduction_before: bool,
        build_edge: EdgeBuilder,
        mask: Tensor | None,
    ) -> None:
        super().__init__()
        if reduction_before:
            self.preprocess0: nn.Module = FactorizedReduce(inputs[0], channels, SEARCH)
        else:
            self.preprocess0 = relu_conv_norm(inputs[0], channels, SEARCH)
        self.preprocess1 = relu_conv_norm(inputs[1], channels, SEARCH)
        strides = [2 if reduction and source < INPUTS else 1 for source, _ in kind.edges]
        self.nodes = MixedNodes(kind, channels, strides, make=_make, build_edge=build_edge, mask=mask)

    def forward(self, s0: Tensor, s1: Tensor, mixture: Mixture, cell: int) -> Tensor:
        """Compute the outputs of the four nodes, concatenated."""
        states = self.nodes([self.preprocess0(s0), self.preprocess1(s1)], mixture, cell)
        return torch.cat(states[INPUTS:], dim=1)


class DartsSupernet(nn.Module):
    """Stem, cells with two reductions among them, global average pooling, linear classifier."""

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        *,
        channels: int,
        cells: int,
        stem: str,
        images: ImageSpec,
        build_edge: EdgeBuilder,
        masks: Masks,
    ) -> None:
        super().__init__()
        width = channels if stem == "small" else 3 * channels
        self.stem = build_stem(stem, images.channels, channels, SEARCH, width=width)
        plans = list(_plans(kinds, self.stem, channels, cells))
        last = plans[-1]
        self.kinds = [plan.kind for plan in plans]
        classifier = nn.Linear(last.channels * _nodes(kinds[last.kind]), images.classes)

        def build(plan: CellPlan) -> DartsMixedCell:
            return DartsMixedCell(
                kinds[plan.kind],
                plan.inputs,
                plan.channels,
                reduction=plan.kind == "reduce",
                reduction_before=plan.reduction_before,
                build_edge=build_edge,
                mask=masks.get(plan.kind),
            )

        # One cell of each plan says how many parameters all of them have. A hundred cells take seconds to build.
        first = {plan: build(plan) for plan in dict.fromkeys(plans)}
        repeated = sum(count * _size(first[plan]) for plan, count in Counter(plans).items())
        check_parameters(_size(self.stem) + repeated + _size(classifier))
        self.cells = nn.ModuleList(first.pop(plan) if plan in first else build(plan) for plan in plans)
        self.classifier = classifier  # after the cells: initial weights are drawn in the order of the names

    def forward(self, images: Tensor, mixtures: Mapping[str, Mixture]) -> Tensor:
        """Return the logits of a batch of images."""
        s0, s1 = self.stem(images)
        for i, (kind, cell) in enumerate(zip(self.kinds, self.cells, strict=True)):
            s0, s1 = s1, cell(s0, s1, mixtures[kind], i)
        logits: Tensor = self.classifier(s1.mean(dim=(2, 3)))
        return logits


def _plans(kinds: Mapping[str, Kind], stem: Stem, channels: int, cells: int) -> Iterator[CellPlan]:
    before, inputs = stem.reduction_before, stem.channels
    for i in range(cells):
        kind = "reduce" if i in reduction_cells(cells) else "normal"
        channels = 2 * channels if kind == "reduce" else channels
        yield CellPlan(kind, inputs, channels, before)
        before, inputs = kind == "reduce", (inputs[1], channels * _nodes(kinds[kind]))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _make(name: str, channels: int, stride: int) -> nn.Module:
    return operations.build(name, channels, stride, SEARCH)


def _nodes(kind: Kind) -> int:
    return len({node for _, node in kind.edges})
