"""DARTS-PT on hand-made validation errors."""

from itertools import permutations

import torch
from torch import Tensor

from smallgroup.methods import Continue, EpochEnd, Measured
from smallgroup.methods.darts_pt import DartsPt
from smallgroup.runtime import stream
from smallgroup.testing import SmoothSpace
from tests.methods.cases import ALPHA, at, fits, started

NEEDED = torch.tensor([[9.0, 6, 0, 5, 1], [9, 1, 3, 2, 0], [9, 0, 1, 2, 4]]).double()
"""How much the accuracy needs each operation; `none`, column 0, is never chosen."""
ARCHITECTURE = {"alpha_cell": ALPHA}


def made(**options: object) -> DartsPt:
    method = started(DartsPt(**options))  # type: ignore[arg-type]
    method.initial(SmoothSpace(), stream(0))
    return method


def end(method: DartsPt, epoch: int, epochs: int, seen: list[Tensor] | None = None) -> None:
    def measure() -> Measured:
        weights = method.mix(ARCHITECTURE, {}, None)["cell"].weights
        if seen is not None:
            seen.append(weights)
        return Measured(100 - float((NEEDED * (weights > 0)).sum()), 0.0)

    assert method.end_epoch(EpochEnd(at(epoch, epochs), ARCHITECTURE, None, measure=measure)) == Continue()


def test_edges_get_the_operation_that_is_missed_most_one_after_the_other() -> None:
    method, decided = made(), []
    for epoch in range(6):
        end(method, epoch, 6)
        decided.append(int((method.mask("cell").sum(dim=1) == 1).sum()))
    assert decided == [0, 0, 0, 1, 2, 3]
    assert method.mask("cell").nonzero()[:, 1].tolist() == [1, 2, 4]
    # Edges by what their operation is needed for: 6, 3 and 4.
    scores = method.scores(ARCHITECTURE)["cell"]
    assert [float(scores[edge, i]) for edge, i in ((0, 1), (1, 2), (2, 4))] == [1.0, 1 / 3, 2 / 3]


def test_the_others_keep_their_weight_while_one_is_hidden() -> None:
    method = made(selection=1.0)
    seen: list[Tensor] = []
    end(method, 0, 3, seen)
    softmax = ALPHA.softmax(dim=1)
    (first, *_) = method.state["order"].tolist()
    assert len(seen) == 4  # all operations of one edge but `none`
    for i, weights in enumerate(seen, start=1):
        expected = softmax.clone()
        expected[first, i] = 0
        torch.testing.assert_close(weights, expected)
    assert not any(name.startswith("hidden") for name in method.state)


def test_every_order_of_edges_is_as_likely_as_any_other() -> None:
    method, generator, space = started(DartsPt()), stream("orders"), SmoothSpace()
    counts = dict.fromkeys(permutations(range(3)), 0)
    for _ in range(20_000):
        method.initial(space, generator)
        counts[tuple(method.state["order"].tolist())] += 1
    assert fits(torch.tensor(list(counts.values())), torch.ones(6))


def test_edges_are_decided_in_the_order_that_was_drawn() -> None:
    method = made(selection=1.0)
    for order in ([2, 0, 1], [1, 2, 0]):
        method.start(SmoothSpace())
        method.state["order"] = torch.tensor(order)
        end(method, 0, 3)
        assert (method.mask("cell").sum(dim=1) == 1).nonzero().flatten().tolist() == order[:1]


def test_of_equal_errors_the_loss_decides() -> None:
    method = made(selection=1.0)

    def measure() -> Measured:
        weights = method.mix(ARCHITECTURE, {}, None)["cell"].weights
        return Measured(10.0, float(weights[:, 3].eq(0).sum()))

    method.end_epoch(EpochEnd(at(0, 1), ARCHITECTURE, None, measure=measure))
    assert method.mask("cell").nonzero()[:, 1].tolist() == [3, 3, 3]


def test_the_architecture_rests_once_edges_are_decided() -> None:
    method = made()
    assert [method.trains_architecture(at(epoch, 6)) for epoch in range(6)] == [True] * 4 + [False] * 2
    assert not made(blank=True).trains_architecture(at(0, 6))


def test_blank_has_equal_weights() -> None:
    method = made(blank=True)
    kept = torch.tensor([[True] * 5, [True, False, True, False, False], [True] * 5])
    method.keep("cell", kept)
    weights = method.mix(ARCHITECTURE, {}, "w")["cell"].weights
    torch.testing.assert_close(weights, kept.double() / kept.sum(dim=1, keepdim=True))
