"""Mixed edges, each a weighted sum of the outputs of its operations, and the nodes that sum them."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import ClassVar

import torch
from torch import Tensor, nn

from smallgroup.kernels import Backend, Term, backend_for
from smallgroup.runtime.constants import places_on
from smallgroup.runtime.precision import widened
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.sharing import Terms, bound, leaving, running
from smallgroup.spaces.space import Choice, EdgeBuilder, EdgeParts, Mixture, remaining
from smallgroup.spaces.whole import WholeCell


class MixedEdge(nn.Module):
    """sum_i w_i o_i(x), over the operations that are to run. `none` runs only where nothing else does.

    A method's edge that mixes and does something beside it says so in `first` and `finish`, not in `forward`: then
    what the edges of a node have in common is still computed once. One that passes part of its input by says so in
    `beside` and `joined` alone: then a whole node can be one sum.
    """

    transforms: ClassVar[bool] = True
    """Whether the outputs of operations go through the transform of the choice."""
    first: int | None = None
    """How many of the first channels go through the operations; None: all."""

    def __init__(self, parts: EdgeParts) -> None:
        super().__init__()
        self.names, self.stride = parts.operations, parts.stride
        made = {n: parts.make(n, parts.channels, parts.stride) for n in parts.operations if n is not None}
        self.operations = nn.ModuleDict(made)

    def beside(self, inputs: Tensor) -> Tensor | None:  # noqa: ARG002
        """Return what bypasses the operations, if anything; the same for edges of one class, `stride` and `first`."""
        return None

    def joined(self, mixed: Tensor, beside: Tensor) -> Tensor:  # noqa: ARG002
        """Join the mixed part and the bypassed part: linear in both, and the same for all edges of a node."""
        return mixed

    def finish(self, mixed: Tensor, inputs: Tensor, choice: Choice) -> Tensor:  # noqa: ARG002
        """Finish the mixed output: join it to what bypassed the operations, and nothing else."""
        beside = self.beside(inputs)
        return mixed if beside is None else self.joined(mixed, beside)

    def forward(self, inputs: Tensor, choice: Choice) -> Tensor:
        """Return the mixed output, after what follows the mixture."""
        return self.finish(self._mixed(_part(inputs, self.first), choice), inputs, choice)

    def _mixed(self, inputs: Tensor, choice: Choice) -> Tensor:
        terms = [choice.weights[i] * self._output(i, name, inputs, choice) for i, name in running(self.names, choice)]
        if not terms:
            # All is `none`. The weights stay part of the result, so that the architecture has a gradient: zero.
            (name, *_) = self.operations
            zeros = torch.zeros_like(self.operations[name](inputs.detach()))
            return choice.weights.sum() * zeros
        return _sum(terms)

    def _output(self, i: int, name: str, inputs: Tensor, choice: Choice) -> Tensor:
        constant = choice.evaluate == "detached" and not choice.active[i]
        with torch.set_grad_enabled(torch.is_grad_enabled() and not constant):
            output: Tensor = bound(self.operations[name], name, choice)(inputs)
        output = widened(output)  # so is the gradient of its weight, and the sum
        if choice.transform is None or not self.transforms or not choice.is_transformed(name):
            return output
        return choice.transform(name, output)


class MixedEdges(nn.Module):
    """The edges of a cell of some kind; a subclass says how they are put together."""

    kind: Kind
    edges: nn.ModuleList


class MixedNodes(MixedEdges):
    """All edges of a cell and the nodes they lead to, each the sum of its incoming edges.

    `results` are the nodes that the cell makes its output of; None: all of them.
    """

    def __init__(
        self,
        kind: Kind,
        channels: int,
        strides: Sequence[int],
        *,
        make: Callable[[str, int, int], nn.Module],
        build_edge: EdgeBuilder,
        mask: Tensor | None,
        results: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.edges = nn.ModuleList()
        self.incoming: dict[int, list[tuple[int, int]]] = {}
        self.outgoing: dict[int, list[int]] = {}
        for e, ((source, node), stride) in enumerate(zip(kind.edges, strides, strict=True)):
            self.edges.append(build_edge(EdgeParts(remaining(kind, mask, e), channels, stride, make)))
            self.incoming.setdefault(node, []).append((e, source))
            self.outgoing.setdefault(source, []).append(e)
        self._results = tuple(self.incoming if results is None else results)
        self._mixing = {
            e: edge for e, edge in enumerate(self.edges) if isinstance(edge, MixedEdge) and _only_mixes(edge)
        }
        plain = {e: edge for e, edge in self._mixing.items() if _adds_nothing(edge)}
        self._whole = WholeCell.of(plain, self.incoming, len(kind.operations), self._results)

    def forward(self, inputs: Sequence[Tensor], mixture: Mixture, cell: int) -> list[Tensor]:
        """Return the inputs of the cell, and after them its nodes in their order."""
        backend = backend_for(inputs[0])
        if backend is not None:
            return self._shared(backend, inputs, mixture, cell)
        states = list(inputs)
        for incoming in self.incoming.values():
            states.append(
                _sum([mixture.scaled(e, self.edges[e](states[s], mixture.choice(cell, e))) for e, s in incoming])
            )
        return states

    # The same on a fast path: what the edges that leave a node share is computed once, and a node is one sum.

    def _shared(self, backend: Backend, inputs: Sequence[Tensor], mixture: Mixture, cell: int) -> list[Tensor]:
        if self._whole is not None and not any(map(_watched, self._mixing.values())):
            nodes = self._whole.compute(backend, inputs, mixture)
            if nodes is not None:
                return [*inputs, *nodes]
        choices = [mixture.choice(cell, e) for e in range(len(self.edges))]
        states: list[Tensor] = []
        terms: dict[int, Terms] = {}
        mixing = {e: edge for e, edge in self._mixing.items() if not _watched(edge)}
        past: dict[tuple[object, ...], Tensor | None] = {}
        used = self._used(choices) if backend.whole_nodes else set()

        def arrive(x: Tensor) -> None:
            out = [e for e in self.outgoing.get(len(states), ()) if e in mixing]
            states.append(x)
            # In one call with others, weights that lead nowhere would have a gradient of zeros instead of none.
            for part in dict.fromkeys((mixing[e].first, e in used) for e in out):
                first, edges = part[0], [e for e in out if (mixing[e].first, e in used) == part]
                found = leaving(backend, _part(x, first), [(mixing[e], choices[e]) for e in edges])
                terms.update(zip(edges, found, strict=True))

        for x in inputs:
            arrive(x)
        for incoming in self.incoming.values():
            edges = [e for e, _ in incoming]
            only_mix = all(e in mixing and type(mixing[e]).finish is MixedEdge.finish for e in edges)
            only_mix = only_mix and (backend.whole_nodes or not any(_passes_by(mixing[e]) for e in edges))
            if only_mix and any(terms[e] for e in edges):
                mixed = _node(backend, {e: terms[e] for e in edges}, mixture)
                found = [_beside(mixing[e], states[s], s, past) for e, s in incoming]
                beside = [output for output in found if output is not None]
                if beside:  # all that goes past is one sum too
                    mixed = mixing[edges[0]].joined(mixed, _added(backend, beside, mixture, edges))
                arrive(mixed)
                continue
            outputs = [self._edge(backend, e, states[s], terms.get(e), choices[e]) for e, s in incoming]
            arrive(_added(backend, outputs, mixture, edges))
        return states

    def _used(self, choices: Sequence[Choice]) -> set[int]:
        """Return the edges from which a way leads to the output, past operations that give nothing."""
        found, reached = set(), set(self._results)
        for node, incoming in reversed(self.incoming.items()):
            for e, source in incoming if node in reached else ():
                found.add(e)
                if e not in self._mixing or running(self._mixing[e].names, choices[e]):
                    reached.add(source)
        return found

    def _edge(self, backend: Backend, e: int, x: Tensor, terms: Terms | None, choice: Choice) -> Tensor:
        if not terms:  # the edge has a way of its own, or nothing runs on it
            output: Tensor = self.edges[e](x, choice)
            return output
        weights = torch.stack([choice.weights[i] for i, _ in terms])
        return self._mixing[e].finish(backend.mix([term for _, term in terms], weights), x, choice)


def weights_of_operations(supernet: nn.Module) -> list[list[str]]:
    """Return the names of the weights of every operation of every mixed edge, if it has weights."""
    found = [
        [f"{name}.operations.{operation}.{own}" for own, _ in module.named_parameters()]
        for name, edge in supernet.named_modules()
        if isinstance(edge, MixedEdge)
        for operation, module in edge.operations.items()
    ]
    return [names for names in found if names]


def _part(inputs: Tensor, first: int | None) -> Tensor:
    return inputs if first is None else inputs[:, :first]


def _only_mixes(edge: MixedEdge) -> bool:
    """Return whether an edge computes as this class says; an edge with a way of its own is called as it is."""
    own = ("forward", "_mixed", "_output")
    return all(getattr(type(edge), name) is getattr(MixedEdge, name) for name in own)


def _adds_nothing(edge: MixedEdge) -> bool:
    """Return whether an edge is the sum of its operations on the whole input, and nothing else."""
    own = ("finish", "beside", "joined")
    return edge.first is None and all(getattr(type(edge), name) is getattr(MixedEdge, name) for name in own)


def _watched(edge: MixedEdge) -> bool:
    """Return whether a transform wants to see what enters and leaves the edge."""
    return bool(edge._forward_hooks or edge._forward_pre_hooks)


def _passes_by(edge: MixedEdge) -> bool:
    return type(edge).beside is not MixedEdge.beside


def _beside(edge: MixedEdge, x: Tensor, source: int, known: dict[tuple[object, ...], Tensor | None]) -> Tensor | None:
    """Return what bypasses the operations of an edge; edges that leave a node in the same way share it."""
    if not _passes_by(edge):
        return None
    key = (source, type(edge), edge.first, edge.stride)
    if key not in known:
        known[key] = edge.beside(x)
    return known[key]


def _added(backend: Backend, outputs: Sequence[Tensor], mixture: Mixture, edges: Sequence[int]) -> Tensor:
    """Add up outputs of edges with the factors of those edges."""
    factors = mixture.edges
    scales = torch.ones(len(edges), device=outputs[0].device) if factors is None else _rows(factors, edges)
    return backend.mix([Term(output) for output in outputs], scales)


def _node(backend: Backend, terms: dict[int, Terms], mixture: Mixture) -> Tensor:
    """Add up all terms of all incoming edges."""
    flat = [(e, i, term) for e, own in terms.items() for i, term in own]
    table = mixture.weights
    if table.device.type != "cpu" and mixture.evaluate != "all":
        # Which operations run changes from pass to pass: as indices they would be sent to the device every time.
        weights = torch.stack([table[e, i] for e, i, _ in flat])
    else:
        columns = places_on([e * table.shape[1] + i for e, i, _ in flat], table.device)
        weights = table.reshape(-1).index_select(0, columns)
    if mixture.edges is not None:
        weights = weights * _rows(mixture.edges, [e for e, *_ in flat])
    return backend.mix([term for *_, term in flat], weights)


def _rows(table: Tensor, places: Sequence[int]) -> Tensor:
    """Return some entries of a table. A list as an index would be sent to a GPU in every call."""
    if table.device.type == "cpu":
        return table[list(places)]
    return table.index_select(0, places_on(places, table.device))


def _sum(terms: Sequence[Tensor]) -> Tensor:
    """Add tensors two at a time from the left: the order of additions is fixed, and with it the bits."""
    return reduce(add, terms)
