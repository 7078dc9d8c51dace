"""DARTS+ on hand-made courses of a search."""

import torch
from torch import Tensor

from smallgroup.methods import Continue, Decision, EpochEnd, Stop
from smallgroup.methods.darts_plus import DartsPlus
from smallgroup.testing.smooth import SmoothCell
from tests.methods.cases import ALPHA, at, started


def end(method: DartsPlus, epoch: int, *operations: str, alpha: Tensor = ALPHA, frozen: int = 0) -> Decision:
    return method.end_epoch(EpochEnd(at(epoch, 60, frozen=frozen), {"alpha_cell": alpha}, SmoothCell(operations)))


def test_it_stops_at_two_skip_connections() -> None:
    method = started(DartsPlus())
    assert end(method, 3, "skip_connect", "avg_pool_3x3", "tanh_conv_1x1") == Continue()
    assert end(method, 4, "skip_connect", "skip_connect", "tanh_conv_1x1") == Stop(
        "the derived cell has 2 skip connections"
    )
    assert end(started(DartsPlus(skips=3)), 4, "skip_connect", "skip_connect", "tanh_conv_1x1") == Continue()


def test_it_does_not_look_before_the_architecture_moves() -> None:
    assert end(started(DartsPlus()), 4, *["skip_connect"] * 3, frozen=5) == Continue()


def test_it_stops_when_the_order_of_operations_that_learn_has_settled() -> None:
    """Columns 2 and 3 learn. Skip connections and pooling may change places as they like."""
    method = started(DartsPlus(criterion="ranking", patience=3))
    other, settled = ALPHA.clone(), ALPHA.clone()
    other[1, 2] = 0.6  # above column 3: another order
    found = [end(method, epoch, "skip_connect", alpha=alpha) for epoch, alpha in enumerate([ALPHA, ALPHA, other])]
    assert found == [Continue()] * 3
    for epoch in range(3, 7):
        settled[:, 1], settled[:, 4] = 9.0 * (-1) ** epoch, -9.0 * (-1) ** epoch
        found.append(end(method, epoch, "skip_connect", alpha=settled))
    assert found[3:6] == [Continue()] * 3
    assert found[6] == Stop("the order of operations has not changed for 3 epochs")
    assert int(method.state["unchanged"]) == 3
    assert torch.equal(method.state["learnable_cell"], torch.tensor([False, False, True, True, False]))
