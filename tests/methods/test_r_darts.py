"""R-DARTS: its drop path, and what it makes of a hand-made course of eigenvalues."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.methods import Continue, Decision, EpochEnd, Relaxed, Rollback, Stop
from smallgroup.methods.r_darts import RDarts
from smallgroup.runtime import stream
from smallgroup.testing import SmoothSpace
from smallgroup.testing.groups import batches_for
from tests.methods.cases import ALPHA, at, fits, started

EARLY: dict[str, Any] = {"every": 2, "first": 6, "window": 2, "back": 2}


def course(method: RDarts, eigenvalues: Sequence[float], decay: float = 3e-4) -> list[Decision]:
    """What it decides in each epoch, while the validation loss is c |alpha|^2 / 2 with one of these c."""
    decisions = []
    for epoch, curvature in enumerate(eigenvalues):

        def loss(architecture: Mapping[str, Tensor], curvature: float = curvature) -> Tensor:
            return curvature * (architecture["alpha_cell"] ** 2).sum() / 2

        end = EpochEnd(
            at(epoch, 50), {"alpha_cell": ALPHA}, None, validation_loss=loss, settings={"weight_decay": decay}
        )
        decisions.append(method.end_epoch(end))
    return decisions


def test_it_stops_when_the_mean_has_risen_by_a_third() -> None:
    """Measured in epochs 1, 3, 5, ...: means over two are 1, 1, 1, 1.2, 1.6, in epoch 9 1.6 times that of epoch 5.

    In epoch 7 the ratio is 1.2. The weight decay of alpha is part of the eigenvalue.
    """
    method = started(RDarts(**EARLY))
    decisions = course(method, [9, 1, 9, 1, 9, 1, 9, 1.4, 9, 1.8])
    assert decisions[:9] == [Continue()] * 9
    stop = decisions[9]
    assert isinstance(stop, Stop)
    assert stop.epoch == 5
    assert stop.reason == "the largest eigenvalue has risen by a factor of 1.60"
    torch.testing.assert_close(method.state["eigenvalues"][:, 1], torch.tensor([1, 1, 1, 1.4, 1.8]).double() + 1e-3)


def test_it_does_not_stop_early_or_while_nothing_rises() -> None:
    assert course(started(RDarts(**EARLY)), [1, 1, 1, 1, 1, 5]) == [Continue()] * 6
    assert course(started(RDarts(**EARLY)), [2, 2, 2, 2, 1, 1, 2, 2, 1, 1]) == [Continue()] * 10
    assert course(started(RDarts(stopping="none")), [1, 1, 50, 50] * 5) == [Continue()] * 20


def test_the_earlier_mean_ends_so_many_measurements_before() -> None:
    """In epoch 9 the mean of (2.5, 2.5) over that of (2, 2) is 1.25; a measurement earlier it would be over (1, 2)."""
    later = {**EARLY, "first": 8}
    assert course(started(RDarts(**later)), [9, 1, 9, 2, 9, 2, 9, 2.5, 9, 2.5]) == [Continue()] * 10
    assert isinstance(course(started(RDarts(**later)), [9, 1, 9, 2, 9, 2, 9, 2.5, 9, 2.8])[9], Stop)


def test_as_published_it_looks_from_epoch_ten_on() -> None:
    decisions = course(started(RDarts()), [1] * 8 + [3] * 8)
    assert decisions[:11] == [Continue()] * 11
    assert isinstance(decisions[11], Stop)
    # Five measurements before: epoch 3. Mean of (1, 1, 1, 3, 3) over that of (1, 1).
    assert decisions[11] == Stop("the largest eigenvalue has risen by a factor of 1.80", 3)


@pytest.mark.parametrize(("decay", "expected"), [(3e-4, 3e-3), (0.01, 0.03)])
def test_adaptive_goes_back_with_more_weight_decay(decay: float, expected: float) -> None:
    method = started(RDarts(stopping="adaptive", **EARLY))
    last = course(method, [9, 1, 9, 1, 9, 1, 9, 1.4, 9, 1.8], decay)[-1]
    assert isinstance(last, Rollback)
    assert last.epoch == 5
    assert last.settings["weight_decay"] == pytest.approx(expected)
    assert method.reach == 4
    assert RDarts().reach == 0


@pytest.mark.parametrize(
    ("decay", "growth"), [(0.03, 10.0), (10 * (10 * 3e-4), 10.0), (3e-4, 1.0), (0.0, 10.0), (0.1, 10.0)]
)
def test_adaptive_goes_on_where_the_weight_decay_cannot_be_raised(decay: float, growth: float) -> None:
    """To go back without a change would be to go back for ever. By rounding, 100 times 3e-4 may end below 0.03."""
    method = started(RDarts(stopping="adaptive", growth=growth, **EARLY))
    assert course(method, [9, 1, 9, 1, 9, 1, 9, 1.4, 9, 1.8], decay) == [Continue()] * 10


def test_drop_path_grows_and_drops_images_of_whole_edges() -> None:
    method = started(RDarts(drop_path=0.4))
    outputs = torch.ones(100_000, 1, 1, 1).double()
    for epoch, rate in ((0, 0.0), (5, 0.2), (10, 0.4)):
        method.schedule(at(epoch, 11))
        found = method.transform("edge", outputs, stream(epoch), "w").flatten()
        if rate:
            assert fits(torch.stack([(found == 0).sum(), (found > 0).sum()]), torch.tensor([rate, 1 - rate]))
            torch.testing.assert_close(found.max(), torch.tensor(1 / (1 - rate)).double())
        else:
            assert torch.equal(found, outputs.flatten())
    assert torch.equal(method.transform("edge", outputs, stream(0), None), outputs)


def test_all_operations_of_an_edge_are_dropped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    space = SmoothSpace()
    relaxed = Relaxed(space, RDarts(drop_path=0.5))
    relaxed.method.schedule(at(1, 2))
    weights, architecture = relaxed.initial_weights("w"), relaxed.initial_architecture()
    (x, _), _, _ = batches_for(space, torch.float32)
    seen: list[Tensor] = []
    original = RDarts.transform

    def transform(self: RDarts, name: str, output: Tensor, *rest: Any) -> Tensor:
        assert name == "edge"
        seen.append(original(self, name, output, *rest))
        return seen[-1]

    monkeypatch.setattr(RDarts, "transform", transform)
    relaxed(weights, architecture, x, phase="w")
    assert len(seen) == 6  # two cells of three edges
    dropped = [(one.flatten(1) == 0).all(dim=1).sum() for one in seen]
    assert 0 < sum(map(int, dropped)) < 6 * len(x)
