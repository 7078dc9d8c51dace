"""Mixed edges, each a weighted sum of the outputs of its operations, and the nodes that sum them."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from smallgroup.spaces.space import Choice, EdgeBuilder, EdgeParts, Kind, Mixture, remaining


class MixedEdge(nn.Module):
    """sum_i w_i o_i(x), over the operations that are to run. `none` runs only where nothing else does."""

    def __init__(self, parts: EdgeParts) -> None:
        super().__init__()
        self.names = parts.operations
        made = {n: parts.make(n, parts.channels, parts.stride) for n in parts.operations if n is not None}
        self.operations = nn.ModuleDict(made)

    def forward(self, inputs: Tensor, choice: Choice) -> Tensor:
        """The mixed output."""
        terms = [
            choice.weights[i] * self._output(i, name, inputs, choice)
            for i, name in enumerate(self.names)
            if name not in (None, "none") and choice.kept[i] and (choice.active[i] or choice.evaluate != "active")
        ]
        if not terms:
            # All is `none`. The weights stay part of the result, so that the architecture has a gradient: zero.
            (name, *_) = self.operations
            zeros = torch.zeros_like(self.operations[name](inputs.detach()))
            return choice.weights.sum() * zeros
        return _sum(terms)

    def _output(self, i: int, name: str | None, inputs: Tensor, choice: Choice) -> Tensor:
        assert name is not None  # removed operations are not asked
        constant = choice.evaluate == "detached" and not choice.active[i]
        with torch.set_grad_enabled(torch.is_grad_enabled() and not constant):
            output: Tensor = self.operations[name](inputs)
        return output if choice.transform is None else choice.transform(name, output)


class MixedNodes(nn.Module):
    """All edges of a cell and the nodes they lead to, each the sum of its incoming edges."""

    def __init__(
        self,
        kind: Kind,
        channels: int,
        strides: Sequence[int],
        *,
        make: Callable[[str, int, int], nn.Module],
        build_edge: EdgeBuilder,
        mask: Tensor | None,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.edges = nn.ModuleList()
        self.incoming: dict[int, list[tuple[int, int]]] = {}
        for e, ((source, node), stride) in enumerate(zip(kind.edges, strides, strict=True)):
            self.edges.append(build_edge(EdgeParts(remaining(kind, mask, e), channels, stride, make)))
            self.incoming.setdefault(node, []).append((e, source))

    def forward(self, inputs: Sequence[Tensor], mixture: Mixture, cell: int) -> list[Tensor]:
        """The inputs of the cell, and after them its nodes in their order."""
        states = list(inputs)
        for incoming in self.incoming.values():
            states.append(
                _sum([mixture.scaled(e, self.edges[e](states[s], mixture.choice(cell, e))) for e, s in incoming])
            )
        return states


def _sum(terms: Sequence[Tensor]) -> Tensor:
    """Two at a time from the left: the order of additions is fixed, and with it the bits."""
    return reduce(add, terms)
