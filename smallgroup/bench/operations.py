"""`bench ops`: every operation of the spaces by itself, forward and backward."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from smallgroup.bench.cases import BenchRow, contenders, row
from smallgroup.bench.operation import MeasuredOperation
from smallgroup.bench.timing import Call, TurnWatch, alternate
from smallgroup.runtime import stream
from smallgroup.runtime.device import current
from smallgroup.spaces import definition_of
from smallgroup.spaces.edges import MixedEdge, MixedNodes
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.space import Mixture
from smallgroup.spaces.weights import initial_weights

ROUNDS = 7
LEAST = 0.05
"""Seconds of a turn; a single operation is too short for a clock."""
QUICK_LEAST = 0.005


def on_an_edge(asked: MeasuredOperation, *, channels_last: bool) -> Call:
    """Return an edge of the space on which this operation alone is left: what a supernet would run."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    definition = definition_of(asked.space)
    known = next(iter(definition.kinds.values())).operations
    chosen = torch.tensor([[name == asked.operation for name in known]])
    kind = Kind("edge", ((0, 1),), known)
    with torch.device("meta"):
        edge = MixedNodes(
            kind, asked.channels, [asked.stride], make=definition.operation, build_edge=MixedEdge, mask=chosen
        )
    where = current()
    weights = initial_weights(edge, stream("bench", "weights"), device=where, memory_format=layout)
    own = [tensor.requires_grad_() for tensor in weights.values()]
    # Before a batch norm a bias has the gradient zero, and whatever rounding makes of that: it is not compared.
    filters, biases = (
        [tensor for tensor in own if tensor.dim() > 1],
        [tensor for tensor in own if tensor.dim() == 1],
    )
    shape = (asked.batch, asked.channels, asked.size, asked.size)
    images = torch.randn(shape, generator=stream("bench", "inputs")).to(where).contiguous(memory_format=layout)
    images.requires_grad_()
    mixture = Mixture(chosen.float().to(where), evaluate="active")
    halved = -(-asked.size // asked.stride)
    above = torch.randn(*shape[:2], halved, halved, generator=stream("bench", "above"))
    above = above.to(where).contiguous(memory_format=layout)

    def call() -> Sequence[Tensor | None]:
        output = functional_call(edge, weights, ([images], mixture, 0))[-1]
        found = torch.autograd.grad(output, [images, *filters, *biases], above)
        return [output.detach(), *found[: 1 + len(filters)]]

    return call


def measure(
    cases: Sequence[MeasuredOperation], path: str, rounds: int, *, least: float = LEAST, watch: TurnWatch | None = None
) -> list[BenchRow]:
    """Measure all operations, both forms in turn."""
    calls: dict[str, Call] = {}
    for case in cases:
        calls[f"{case.name}, plain"], calls[f"{case.name}, fast"] = contenders(case, path)
    found = alternate(calls, rounds, least=least, watch=watch)
    return [row(case, found[f"{case.name}, plain"], found[f"{case.name}, fast"], path) for case in cases]
