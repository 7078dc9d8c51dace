"""`bench ops`: every operation of the spaces by itself, forward and backward."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from smallgroup.bench.cases import BenchRow, contenders, row
from smallgroup.bench.timing import Call, Watch, alternate
from smallgroup.runtime import stream
from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.spaces import MAIN_SPACES, SPACES, DartsSpace
from smallgroup.spaces.darts import operations as darts
from smallgroup.spaces.edges import MixedEdge, MixedNodes
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.layers import SEARCH
from smallgroup.spaces.nas_bench_201 import operations as nas_bench_201
from smallgroup.spaces.space import Mixture
from smallgroup.spaces.weights import initial_weights

ROUNDS = 7
QUICK = {"channels": 8, "batch": 4, "size": 16}
LEAST = 0.05
"""Seconds of a turn; a single operation is too short for a clock."""
QUICK_LEAST = 0.005


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation on an edge between two nodes: its output, and the gradients of its input and its weights."""

    space: str
    operation: str
    stride: int
    channels: int = 16
    batch: int = 32
    size: int = 32

    def __post_init__(self) -> None:
        check_choice("space", self.space, MAIN_SPACES)
        check_counts(channels=self.channels, batch=self.batch, size=self.size)

    @property
    def name(self) -> str:
        """Space, operation and stride."""
        return f"{self.space}, {self.operation}, stride {self.stride}"

    @property
    def sizes(self) -> dict[str, Any]:
        """All of them."""
        return dict(vars(self))

    def plain(self) -> Call:
        """In NCHW."""
        return self._in(torch.contiguous_format)

    def fast(self) -> Call:
        """With channels last."""
        return self._in(torch.channels_last)

    def _in(self, layout: torch.memory_format) -> Call:
        """An edge of the space on which this operation alone is left: what a supernet would run."""
        known = next(iter(SPACES[self.space].kinds.values())).operations
        chosen = torch.tensor([[name == self.operation for name in known]])
        kind = Kind("edge", ((0, 1),), known)
        with torch.device("meta"):
            edge = MixedNodes(kind, self.channels, [self.stride], make=self._make, build_edge=MixedEdge, mask=chosen)
        weights = initial_weights(edge, stream("bench", "weights"), memory_format=layout)
        own = [tensor.requires_grad_() for tensor in weights.values()]
        # Before a batch norm a bias has the gradient zero, and whatever rounding makes of that: it is not compared.
        filters, biases = (
            [tensor for tensor in own if tensor.dim() > 1],
            [tensor for tensor in own if tensor.dim() == 1],
        )
        shape = (self.batch, self.channels, self.size, self.size)
        images = torch.randn(shape, generator=stream("bench", "inputs")).contiguous(memory_format=layout)
        images.requires_grad_()
        mixture = Mixture(chosen.float(), evaluate="active")
        halved = -(-self.size // self.stride)
        above = torch.randn(*shape[:2], halved, halved, generator=stream("bench", "above"))
        above = above.contiguous(memory_format=layout)

        def call() -> Sequence[Tensor | None]:
            output = functional_call(edge, weights, ([images], mixture, 0))[-1]
            found = torch.autograd.grad(output, [images, *filters, *biases], above)
            return [output.detach(), *found[: 1 + len(filters)]]

        return call

    def _make(self, name: str, channels: int, stride: int) -> nn.Module:
        if self.space == DartsSpace.name:
            return darts.build(name, channels, stride, SEARCH)
        return nas_bench_201.build(name, channels, SEARCH)


def every_operation(**sizes: int) -> list[Operation]:
    """All but `none`, which nobody computes; in NAS-Bench-201 no operation has a stride."""
    return [
        Operation(space=space, operation=name, stride=stride, **sizes)
        for space in MAIN_SPACES
        for name in next(iter(SPACES[space].kinds.values())).operations
        for stride in ((1, 2) if space == DartsSpace.name else (1,))
        if name != "none"
    ]


def measure(
    cases: Sequence[Operation], path: str, rounds: int, *, least: float = LEAST, watch: Watch | None = None
) -> list[BenchRow]:
    """All of them in turn."""
    calls: dict[str, Call] = {}
    for case in cases:
        calls[f"{case.name}, plain"], calls[f"{case.name}, fast"] = contenders(case, path)
    found = alternate(calls, rounds, least=least, watch=watch)
    return [row(case, found[f"{case.name}, plain"], found[f"{case.name}, fast"], path) for case in cases]
