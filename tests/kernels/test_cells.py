"""Cells in one call against the same cells layer by layer: any size, any graph, and only what is asked for."""

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from smallgroup import kernels
from smallgroup.kernels import native
from smallgroup.kernels.native import Native
from smallgroup.spaces.edges import MixedEdge, MixedNodes
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.layers import SEARCH
from smallgroup.spaces.nas_bench_201 import operations
from smallgroup.spaces.nas_bench_201.cell import KIND, OPERATIONS
from smallgroup.spaces.nas_bench_201.supernet import NasBench201MixedCell
from smallgroup.spaces.space import Mixture
from smallgroup.spaces.weights import initial_weights
from tests.kernels.layers import images

if "native" not in kernels.available():
    pytest.skip("there are no native kernels here", allow_module_level=True)


class Case:
    """A random cell on random images: inputs, nodes, edges, operations that are left, and a mixture of them."""

    def __init__(self, seed: int, kind: Kind | None = None, size: tuple[int, int, int, int] | None = None) -> None:
        chance = random.Random(seed)
        n, c = chance.randrange(2, 5), chance.choice([1, 2, 3, 5, 8, 9, 16, 17, 24, 33])
        self.size = size or (n, c, chance.randrange(1, 10), chance.randrange(1, 10))
        self.inputs = 1
        if kind is None:
            self.inputs, nodes = chance.randrange(1, 3), chance.randrange(1, 4)
            states = self.inputs + nodes
            pairs = [(s, t) for t in range(self.inputs, states) for s in range(t) if chance.random() < 0.7 or s == 0]
            kind = Kind("cell", tuple(pairs), OPERATIONS)
        self.kind = kind
        mask = torch.tensor([[chance.random() < 0.8 for _ in OPERATIONS] for _ in kind.edges])
        mask[:, chance.randrange(1, 5)] = True  # every edge has an operation

        def make(name: str, channels: int, stride: int) -> nn.Module:  # noqa: ARG001
            return operations.build(name, channels, SEARCH)

        with torch.device("meta"):
            self.nodes = MixedNodes(
                kind, self.size[1], [1] * len(kind.edges), make=make, build_edge=MixedEdge, mask=mask
            )
        generator = torch.Generator().manual_seed(seed)
        self.weights = initial_weights(self.nodes, generator, dtype=torch.float64)
        self.table = torch.randn(kind.shape, generator=generator, dtype=torch.float64)
        self.factors = torch.rand(len(kind.edges), generator=generator, dtype=torch.float64) + 0.5

    def run(
        self, path: str, dtype: torch.dtype = torch.float64, wanted: tuple[str, ...] = ("x", "weights", "table")
    ) -> list[Tensor]:
        """All states, and the gradients of what is wanted under a random direction of the nodes."""
        xs = [images(self.size, 20 + i, dtype).requires_grad_("x" in wanted) for i in range(self.inputs)]
        weights = {k: w.detach().to(dtype).requires_grad_("weights" in wanted) for k, w in self.weights.items()}
        table = self.table.to(dtype).requires_grad_("table" in wanted)
        mixture = Mixture(table, edges=self.factors.to(dtype))
        with kernels.using(path):
            states = functional_call(self.nodes, weights, (xs, mixture, 0))
            made = states[self.inputs :]
            loss = sum((y * images(self.size, 40 + i, dtype)).sum() for i, y in enumerate(made))
            leaves = [leaf for leaf in (*xs, *weights.values(), table) if leaf.requires_grad]
            assert isinstance(loss, Tensor)
            found = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        return [*(y.detach() for y in made), *found]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often cells were computed in one call, and of how many terms."""
    calls: list[int] = []
    cell = Native.cell

    def watched(self: Native, plan: kernels.CellTerms, inputs: list[Tensor], weights: Tensor) -> list[Tensor] | None:
        calls.append(len(plan.arrows))
        return cell(self, plan, inputs, weights)

    monkeypatch.setattr(Native, "cell", watched)
    return calls


def error(some: list[Tensor], others: list[Tensor]) -> float:
    return max(float((a - b).abs().max() / max(1.0, float(b.abs().max()))) for a, b in zip(some, others, strict=True))


def test_any_cell_on_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)
    for seed in range(15):
        case = Case(seed)
        # A batch of few pixels is normalized by a tiny variance, which magnifies rounding.
        assert error(case.run("native"), case.run("plain")) < 1e-7, (seed, case.size, case.kind.edges)
    assert len(calls) >= 12  # the others have no convolution


@pytest.mark.parametrize("size", [(2, 8, 16, 16), (3, 16, 8, 8), (2, 32, 4, 4), (4, 64, 2, 2), (2, 8, 12, 9)])
def test_sizes_of_searches(size: tuple[int, int, int, int]) -> None:
    case = Case(1, KIND, size)
    assert error(case.run("native"), case.run("plain")) < 1e-9


def test_float32_is_as_exact_as_torch() -> None:
    """Both against float64: where a value is almost zero ReLU flips, so that errors are compared as a whole."""
    case = Case(3, KIND, (16, 8, 12, 12))
    exact, plain, fast = case.run("plain"), case.run("plain", torch.float32), case.run("native", torch.float32)
    for e, p, f in zip(exact, plain, fast, strict=True):
        if float(e.norm()) < 1e-9 * float(exact[0].norm()):
            continue  # a bias before a batch norm: its gradient is zero
        assert float((f - e).norm() / e.norm()) < max(3 * float((p - e).norm() / e.norm()), 3e-6)


def test_gradients_that_are_not_asked_for_change_nothing() -> None:
    case = Case(2, KIND, (3, 9, 7, 6))
    every = case.run("native")
    nodes, start = len(case.nodes.incoming), 0
    counts = {"x": 1, "weights": len(case.weights), "table": 1}
    for name, count in counts.items():
        alone = case.run("native", wanted=(name,))
        assert all(map(torch.equal, alone[:nodes], every[:nodes]))
        assert all(map(torch.equal, alone[nodes:], every[nodes + start : nodes + start + count])), name
        start += count


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_every_time(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        case = Case(5, KIND, (5, 8, 9, 9))
        first, second = case.run("native", torch.float32), case.run("native", torch.float32)
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, first, second))


def test_wide_cells_are_computed_edge_by_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(native, "compute", lambda _, inputs, *__: calls.append(inputs[0].shape[1]))
    for channels in (129, 128):
        case = Case(1, KIND, (2, channels, 2, 2))
        assert error(case.run("native"), case.run("plain")) < 1e-7
    assert calls == [128]


def test_a_node_that_nobody_uses_has_no_part_in_the_gradient() -> None:
    case = Case(7, KIND, (3, 4, 5, 5))
    found = []
    for path in ("plain", "native"):
        weights = {name: tensor.clone().requires_grad_() for name, tensor in case.weights.items()}
        with kernels.using(path):
            states = functional_call(case.nodes, weights, ([images(case.size)], Mixture(case.table), 0))
            loss = (states[2] * images(case.size, 3)).sum()
            leaves = list(weights.values())
            found.append(torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True))
    assert error(list(found[1]), list(found[0])) < 1e-9


def test_only_what_runs_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)
    case = Case(6, KIND, (2, 4, 5, 5))
    table = torch.zeros(KIND.shape, dtype=torch.float64)
    names = [edge.names for edge in case.nodes.edges if isinstance(edge, MixedEdge)]
    for e, row in enumerate(names):
        table[e, next(i for i, name in enumerate(row) if name not in (None, "none"))] = 0.5 + e
    mixture = Mixture(table, evaluate="active")
    results = {}
    for path in ("plain", "native"):
        with kernels.using(path), torch.no_grad():
            results[path] = functional_call(case.nodes, case.weights, ([images(case.size)], mixture, 0))
    assert calls == [6]
    assert error(results["native"], results["plain"]) < 1e-10


@pytest.mark.parametrize("why", ["transform", "detached", "watched", "none"])
def test_what_a_cell_in_one_call_cannot_do_is_done_edge_by_edge(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)
    case = Case(8, KIND, (2, 4, 5, 5))
    table = case.table
    if why == "watched":
        case.nodes.edges[1].register_forward_hook(lambda *_: None)
    if why == "none":
        table = torch.zeros(KIND.shape, dtype=torch.float64)
    mixture = Mixture(
        table,
        evaluate="detached" if why == "detached" else "active" if why == "none" else "all",
        transform=(lambda _, y, *__: 2 * y) if why == "transform" else None,
    )
    results = {}
    for path in ("plain", "native"):
        with kernels.using(path):
            results[path] = functional_call(case.nodes, case.weights, ([images(case.size)], mixture, 0))
    assert calls == []
    assert error(results["native"], results["plain"]) < 1e-10


def drawn(operations: Sequence[str]) -> Mixture:
    """Mix one operation for every edge, as methods draw it that run no other."""
    table = torch.zeros(KIND.shape, dtype=torch.float64)
    for e, name in enumerate(operations):
        table[e, OPERATIONS.index(name)] = 0.5 + e
    return Mixture(table.requires_grad_(), evaluate="active")


C3, SKIP, NONE = "nor_conv_3x3", "skip_connect", "none"


@pytest.mark.parametrize(
    ("operations", "terms"),
    [
        ((C3, C3, C3, C3, C3, C3), 6),
        ((C3, C3, NONE, C3, NONE, C3), 3),  # the first node leads nowhere
        ((NONE, C3, C3, SKIP, C3, C3), 5),  # the first node is zero, and two convolutions read it
        ((C3, C3, C3, C3, NONE, NONE), 1),
        ((NONE, C3, SKIP, SKIP, NONE, C3), 4),  # as above, and a sum reads it
        ((C3, C3, C3, NONE, NONE, NONE), None),  # no way leads to the result
        ((NONE, NONE, SKIP, NONE, C3, SKIP), None),
    ],
)
def test_cells_of_one_operation_per_edge(
    operations: tuple[str, ...], terms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same values, and the same weights that take no part: an optimizer leaves those alone."""
    calls = counted(monkeypatch)
    with torch.device("meta"):
        cell = NasBench201MixedCell(KIND, 8, MixedEdge, None)
    initial = initial_weights(cell, torch.Generator().manual_seed(3), dtype=torch.float64)
    found: dict[str, list[Tensor | None]] = {}
    for path in ("plain", "native"):
        x, mixture = images((3, 8, 6, 6)).requires_grad_(), drawn(operations)
        weights = {name: tensor.clone().requires_grad_() for name, tensor in initial.items()}
        with kernels.using(path):
            y = functional_call(cell, weights, (x, mixture, 0))
            leaves = (x, mixture.weights, *weights.values())
            gradients = torch.autograd.grad((y * images((3, 8, 6, 6), 4)).sum(), leaves, allow_unused=True)
        found[path] = [y.detach(), *gradients]
    assert calls == ([] if terms is None else [terms])
    assert [each is None for each in found["native"]] == [each is None for each in found["plain"]]
    pairs = [(a, b) for a, b in zip(*found.values(), strict=True) if a is not None and b is not None]
    assert error([a for a, _ in pairs], [b for _, b in pairs]) < 1e-9
