"""Cells whose edges only mix plain convolutions, averages and skips: a path may compute such a cell in one call."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from smallgroup.kernels import EPSILON, Arrow, Backend, CellTerms
from smallgroup.spaces.layers import Convolutions, Pool
from smallgroup.spaces.space import Mixture

if TYPE_CHECKING:
    from smallgroup.spaces.edges import MixedEdge

RunningOperations = tuple[tuple[bool, ...], ...]
"""[edges, operations]: which run."""
_MOST_PLANS = 2
"""Plans that a cell keeps: that of the search and that of a look at one cell. Drawn operations have a new plan in
almost every pass, so that more would only take memory."""


class _Plan(NamedTuple):
    """The terms of a cell that run and lead to a result; where their weights and the factors of their edges stand."""

    terms: CellTerms
    nodes: tuple[int, ...]
    """Nodes that the terms lead to, in their order; the others have no part in a result."""
    columns: Tensor
    edges: Tensor


class WholeCell:
    """The operations of a cell as terms of the sums of its nodes, in the order in which these add them."""

    def __init__(
        self, arrows: Sequence[tuple[int, int, Arrow]], inputs: int, nodes: int, columns: int, results: Sequence[int]
    ) -> None:
        self.inputs, self.nodes, self.columns, self.results = inputs, nodes, columns, results
        self.arrows = arrows
        """Each arrow with its edge and its column in the table of weights."""
        self._plans: dict[RunningOperations | None, _Plan | None] = {}

    @staticmethod
    def of(
        edges: Mapping[int, "MixedEdge"],
        incoming: Mapping[int, Sequence[tuple[int, int]]],
        columns: int,
        results: Sequence[int],
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
        return WholeCell(arrows, nodes[0], len(nodes), columns, results) if len(widths) == 1 else None

    def compute(self, backend: Backend, inputs: Sequence[Tensor], mixture: Mixture) -> list[Tensor] | None:
        """Return the nodes of the cell, or None if the path, the mixture or the inputs ask for another way.

        Nodes that have no part in a result are zeros.
        """
        if inputs[0].device.type != "cpu":  # what a cell is as one operator is native
            return None
        if mixture.transform is not None or mixture.evaluate == "detached" or len(inputs) != self.inputs:
            return None
        if any(x.shape != inputs[0].shape for x in inputs):
            return None
        plan = self._plan(mixture.runs())
        if plan is None:
            return None
        weights = mixture.weights.reshape(-1).index_select(0, plan.columns)
        if mixture.edges is not None:
            weights = weights * mixture.edges.index_select(0, plan.edges)
        made = backend.cell(plan.terms, inputs, weights)
        if made is None or len(plan.nodes) == self.nodes:
            return made
        nodes = [inputs[0].new_zeros(1).expand_as(inputs[0])] * self.nodes
        for node, y in zip(plan.nodes, made, strict=True):
            nodes[node - self.inputs] = y
        return nodes

    def _plan(self, runs: Sequence[Sequence[bool]] | None) -> _Plan | None:
        key = None if runs is None else tuple(map(tuple, runs))
        plan = self._plans.pop(key) if key in self._plans else self._planned(key)
        self._plans[key] = plan  # behind all others: the first is the one that was not used for longest
        if len(self._plans) > _MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        return plan

    def _planned(self, runs: RunningOperations | None) -> _Plan | None:
        """Return the plan of what runs; None if some result does not depend on the inputs.

        A weight that leads to no result takes no part, and has no gradient. One that reads a node of nothing but zeros
        does, and its gradient is zero.
        """
        running = [each for each in self.arrows if runs is None or runs[each[0]][each[1]]]
        leading, reached = set(self.results), set(range(self.inputs))
        for *_, arrow in reversed(running):  # they are in the order of their nodes
            if arrow.node in leading:
                leading.add(arrow.source)
        for *_, arrow in running:
            if arrow.source in reached:
                reached.add(arrow.node)
        if not reached.issuperset(self.results):
            return None
        nodes = [node for node in range(self.inputs, self.inputs + self.nodes) if node in leading]
        numbers = {state: state for state in range(self.inputs)}
        numbers |= {node: self.inputs + number for number, node in enumerate(nodes)}
        arrows = [each for each in running if each[2].node in leading]
        renamed = [a._replace(source=numbers[a.source], node=numbers[a.node]) for *_, a in arrows]
        return _Plan(
            CellTerms.of(renamed, self.inputs, len(nodes)),
            tuple(nodes),
            torch.tensor([e * self.columns + i for e, i, _ in arrows], device="cpu"),
            torch.tensor([e for e, *_ in arrows], device="cpu"),
        )


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
