"""The operations of all edges that leave a node, with what they have in common computed once."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from smallgroup.kernels import AnyTerm, Backend, Term
from smallgroup.kernels.halves import side_by_side
from smallgroup.kernels.terms import Deferred
from smallgroup.spaces.layers import Convolutions, FactorizedReduce, NoiseLayer, Pool
from smallgroup.spaces.space import Choice

if TYPE_CHECKING:
    from smallgroup.spaces.edges import MixedEdge

Terms = list[tuple[int, AnyTerm]]
"""The outputs of an edge's operations by their column, not weighted yet."""
Operation = Callable[[Tensor], Tensor]
"""A module, or a function that makes as large an output."""


def running(names: Sequence[str | None], choice: Choice) -> list[tuple[int, str]]:
    """Return the operations of an edge that are to run, by column; `none` gives nothing, so it is not among them."""
    return [
        (i, name)
        for i, name in enumerate(names)
        if name is not None and name != "none" and choice.kept[i] and (choice.active[i] or choice.evaluate != "active")
    ]


def bound(operation: nn.Module, name: str, choice: Choice) -> Operation:
    """Return an operation as a function of its input alone: one that is random has the numbers of its place."""
    if isinstance(operation, NoiseLayer):
        return partial(operation, generator=None if choice.stream is None else choice.stream(name))
    return operation


def leaving(backend: Backend, x: Tensor, edges: Sequence[tuple["MixedEdge", Choice]]) -> list[Terms]:
    """Compute the terms of each edge: ReLU and pooling once per node, convolutions of one depth in one call."""
    places = [(e, i, name) for e, (edge, choice) in enumerate(edges) for i, name in running(edge.names, choice)]
    constant = [edges[e][1].evaluate == "detached" and not edges[e][1].active[i] for e, i, _ in places]
    found: list[Terms] = [[] for _ in edges]
    for without_gradient in (False, True):
        taken = [place for place, c in zip(places, constant, strict=True) if c == without_gradient]
        operations = [bound(edges[e][0].operations[name], name, edges[e][1]) for e, _, name in taken]
        with torch.set_grad_enabled(torch.is_grad_enabled() and not without_gradient):
            found_here = outputs(backend, Term(x), operations)
        if without_gradient:  # what was left to the sum is to have none there either
            found_here = [term.detached() if isinstance(term, Deferred) else term for term in found_here]
        for (e, i, name), term in zip(taken, found_here, strict=True):
            edge, choice = edges[e]
            transform = choice.transform if edge.transforms and choice.is_transformed(name) else None
            found[e].append((i, term if transform is None else Term(transform(name, backend.normalized(term)))))
    return [sorted(terms, key=lambda term: term[0]) for terms in found]


def outputs(backend: Backend, term: Term, operations: Sequence[Operation]) -> list[AnyTerm]:
    """Compute operations on one input, a term for each; batch norms must use the statistics of the batch."""
    found: list[AnyTerm | None] = [None] * len(operations)
    pools: dict[tuple[bool, int, bool], Term] = {}
    x = term.value if all(map(_normalizes, operations)) else backend.normalized(term)
    for p, operation in enumerate(operations):
        if isinstance(operation, Pool):
            key = (operation.average, operation.stride, operation.normed)
            if key not in pools:
                average, stride, normed = key
                pools[key] = backend.pool(x, average=average, stride=stride, normed=normed)
            found[p] = pools[key]
        elif isinstance(operation, nn.Identity):
            found[p] = term
        elif not isinstance(operation, FactorizedReduce) and not _taken_apart(operation):
            found[p] = Term(operation(x))
    _halve(backend, x, operations, found)
    _convolve(backend, term, operations, found)
    done = [term for term in found if term is not None]
    assert len(done) == len(operations)  # every operation is of one of the kinds above
    return done


def _halve(backend: Backend, x: Tensor, operations: Sequence[Operation], found: list[AnyTerm | None]) -> None:
    """Skip connections of half the size, on one copy of the pixels they pick."""
    halving = [(p, operation) for p, operation in enumerate(operations) if isinstance(operation, FactorizedReduce)]
    if halving:
        layers = [operation.stage() for _, operation in halving]
        for (p, _), term in zip(halving, backend.convolutions([Term(side_by_side(x))], layers, 1), strict=True):
            found[p] = term


def _normalizes(operation: Operation) -> bool:
    """Return whether an operation accepts a term that is not normalized yet."""
    return isinstance(operation, nn.Identity) or _taken_apart(operation)


def _taken_apart(operation: Operation) -> bool:
    return isinstance(operation, Convolutions) and bool(operation.stages)


def _convolve(backend: Backend, term: Term, operations: Sequence[Operation], found: list[AnyTerm | None]) -> None:
    """Compute all first stages on the input, one stride at a time, then all second stages, and so on."""
    every = [(p, one) for p, one in enumerate(operations) if isinstance(one, Convolutions) and one.stages]
    for stride in sorted({one.stride for _, one in every}):
        layers = [(p, one) for p, one in every if one.stride == stride]
        _advance(backend, [term], layers, 0, found)
    number = 1
    while left := [(p, one) for p, one in every if len(one.stages) > number]:
        _advance(backend, [one for p, _ in left if isinstance(one := found[p], Term)], left, number, found)
        number += 1


def _advance(
    backend: Backend,
    inputs: Sequence[Term],
    layers: Sequence[tuple[int, Convolutions]],
    number: int,
    found: list[AnyTerm | None],
) -> None:
    """Compute one stage of several operations: on one input, or each on its own."""
    stages = [one.stage(number, s if number else 0) for s, (_, one) in enumerate(layers)]
    stride = 1 if number else layers[0][1].stride
    for (p, _), term in zip(layers, backend.convolutions(inputs, stages, stride), strict=True):
        found[p] = term
