"""Cells whose edges only mix plain convolutions, averages and skips: a path may compute such a cell in one call."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from smallgroup.kernels import EPSILON, Arrow, Backend, CellTerms
from smallgroup.spaces.layers import Convolutions, Pool
from smallgroup.spaces.space import Mixture

if TYPE_CHECKING:
    from smallgroup.spaces.edges import MixedEdge


class WholeCell:
    """The operations of a cell as terms of the sums of its nodes, in the order in which these add them."""

    def __init__(self, arrows: Sequence[tuple[int, int, Arrow]], inputs: int, nodes: int, columns: int) -> None:
        self.inputs, self.nodes, self.columns = inputs, nodes, columns
        self.arrows = arrows
        """Each arrow with its edge and its column in the table of weights."""
        self._full = self._planned(arrows)

    @staticmethod
    def of(
        edges: Mapping[int, "MixedEdge"], incoming: Mapping[int, Sequence[tuple[int, int]]], columns: int
    ) -> "WholeCell | None":
        """Return the cell of such edges, or None if one of them, or an operation, is of another form."""
        nodes = list(incoming)
        if not nodes or nodes != list(range(nodes[0], nodes[0] + len(nodes))) or nodes[0] == 0:
            return None
        arrows: list[tuple[int, int, Arrow]] = []
        for node, pairs in incoming.items():
            for e, source in pairs:
                if e not in edges or edges[e].stride != 1 or source >= node:
                    return None
                edge = edges[e]
                for i, name in enumerate(edge.names):
                    if name is None or name == "none":
                        continue
                    arrow = _arrow(edge.operations[name], source, node)
                    if arrow is None:
                        return None
                    arrows.append((e, i, arrow))
        widths = {layer.in_channels for *_, arrow in arrows if (layer := arrow.layer) is not None}
        has_terms = {arrow.node for *_, arrow in arrows} == set(nodes)
        return WholeCell(arrows, nodes[0], len(nodes), columns) if has_terms and len(widths) == 1 else None

    def compute(self, backend: Backend, inputs: Sequence[Tensor], mixture: Mixture) -> list[Tensor] | None:
        """Return the nodes of the cell, or None if the path, the mixture or the inputs ask for another way."""
        if inputs[0].device.type != "cpu":  # what a cell is as one operator is native
            return None
        if mixture.transform is not None or mixture.evaluate == "detached" or len(inputs) != self.inputs:
            return None
        if any(x.shape != inputs[0].shape for x in inputs):
            return None
        plan, columns, edges = self._full
        runs = mixture.runs()
        if runs is not None:
            arrows = [each for each in self.arrows if runs[each[0]][each[1]]]
            if len({arrow.node for *_, arrow in arrows}) < self.nodes:
                return None  # a node whose edges are all `none`
            plan, columns, edges = self._planned(arrows)
        weights = mixture.weights.reshape(-1).index_select(0, columns)
        if mixture.edges is not None:
            weights = weights * mixture.edges.index_select(0, edges)
        return backend.cell(plan, inputs, weights)

    def _planned(self, arrows: Sequence[tuple[int, int, Arrow]]) -> tuple[CellTerms, Tensor, Tensor]:
        """Return the plan of some terms, with the positions of their weights and of the factors of their edges."""
        plan = CellTerms.of([arrow for *_, arrow in arrows], self.inputs, self.nodes)
        columns = torch.tensor([e * self.columns + i for e, i, _ in arrows], device="cpu")
        return plan, columns, torch.tensor([e for e, *_ in arrows], device="cpu")


def _arrow(operation: nn.Module, source: int, node: int) -> Arrow | None:
    if type(operation) is nn.Identity:
        return Arrow(source, node)
    if type(operation) is Pool:
        fits = operation.average and operation.stride == 1 and not operation.normed
        return Arrow(source, node, average=True) if fits else None
    if type(operation) is not Convolutions or len(operation.stages) != 1 or operation.stride != 1:
        return None
    (filtered, convolved, normed), *_ = operation.stages
    layer, norm = cast(nn.Conv2d, operation[convolved]), cast(nn.BatchNorm2d, operation[normed])
    plain_norm = not norm.affine and norm.running_mean is None and norm.eps == EPSILON
    small = filtered is None and layer.kernel_size in ((1, 1), (3, 3)) and layer.in_channels == layer.out_channels
    return Arrow(source, node, layer) if plain_norm and small else None
