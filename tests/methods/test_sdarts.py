"""Both forms of SDARTS against their formulas."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from smallgroup.methods.sdarts_adv import SdartsAdv
from smallgroup.methods.sdarts_rs import SdartsRs
from smallgroup.runtime import stream
from tests.methods.cases import ALPHA, at, fits, started, wide


def slow(alpha: Tensor, delta: Tensor) -> list[list[float]]:
    """Clip to [0, 1], divide by the sum; all of a row that is zero goes to its former maximum."""
    rows = []
    for own, shift in zip(alpha.softmax(dim=1).tolist(), delta.tolist(), strict=True):
        moved = [min(1.0, max(0.0, w + d)) for w, d in zip(own, shift, strict=True)]
        total = sum(moved)
        rows.append(
            [m / total for m in moved] if total > 0 else [float(i == own.index(max(own))) for i in range(len(own))]
        )
    return rows


def test_weights_are_perturbed_and_projected() -> None:
    method = started(SdartsRs(first_epsilon=0.4))
    noise = method.draw({"alpha_cell": ALPHA}, "w", stream(0))
    found = method.mix({"alpha_cell": ALPHA}, noise, "w")["cell"].weights
    torch.testing.assert_close(found, torch.tensor(slow(ALPHA, noise["cell"])).double())
    above = torch.tensor([[0.9, -0.9, 0.8, 0.1, 0.7]] * 3).double()  # some weights end at 1, some at 0
    found = method.mix({"alpha_cell": ALPHA}, {"cell": above}, "w")["cell"].weights
    assert bool((ALPHA.softmax(dim=1) + above > 1).any(dim=1).all())
    torch.testing.assert_close(found, torch.tensor(slow(ALPHA, above)).double())
    nothing = torch.full_like(ALPHA, -1.0)
    found = method.mix({"alpha_cell": ALPHA}, {"cell": nothing}, "w")["cell"].weights
    assert found.argmax(dim=1).tolist() == [2, 0, 0]
    torch.testing.assert_close(found, torch.tensor(slow(ALPHA, nothing)).double())


def test_delta_is_uniform() -> None:
    method, architecture = wide(SdartsRs(first_epsilon=0.2), ALPHA[0])
    delta = method.draw(architecture, "v", stream(1))["cell"][:, 2]
    assert -0.2 <= float(delta.min()) < float(delta.max()) <= 0.2
    assert fits(((delta + 0.2) / 0.4 * 10).long().clamp_max(9).bincount(minlength=10), torch.full((10,), 0.1))


@pytest.mark.parametrize("phase", ["val", "label", None])
def test_only_training_is_perturbed(phase: str | None) -> None:
    method = started(SdartsRs())
    noise = method.draw({"alpha_cell": ALPHA}, phase, stream(0))  # type: ignore[arg-type]
    found = method.mix({"alpha_cell": ALPHA}, noise, phase)["cell"].weights  # type: ignore[arg-type]
    torch.testing.assert_close(found, ALPHA.softmax(dim=1))


def test_epsilon_grows_linearly() -> None:
    method = started(SdartsAdv())
    found = []
    for epoch in (0, 10, 40):
        method.schedule(at(epoch, 41))
        found.append(method.epsilon)
    assert found == pytest.approx([0.03, 0.0975, 0.3])


def test_the_ascent_ends_in_the_corner_where_a_linear_loss_is_highest() -> None:
    """Seven steps of 2 epsilon / 7 cross the whole box from any start."""
    method = started(SdartsAdv(first_epsilon=0.1))
    slope = torch.tensor([[1.0, -2.0, 0.5, -0.1, 3.0]] * 3).double()
    calls: list[int] = []

    def loss(noise: Mapping[str, Tensor]) -> Tensor:
        calls.append(0)
        return (slope * noise["cell"]).sum()

    start = method.draw({"alpha_cell": ALPHA}, "w", stream(2))
    found = method.look({"alpha_cell": ALPHA}, start, "w", loss)
    torch.testing.assert_close(found["cell"], 0.1 * slope.sign())
    assert len(calls) == 7 + 2


def test_an_ascent_that_does_not_raise_the_loss_is_left_out() -> None:
    method = started(SdartsAdv())
    start = method.draw({"alpha_cell": ALPHA}, "w", stream(2))
    found = method.look({"alpha_cell": ALPHA}, start, "w", lambda noise: -(noise["cell"].abs() + noise["cell"]).sum())
    assert not bool(found["cell"].any())


def test_nobody_looks_where_nothing_is_perturbed() -> None:
    method = started(SdartsAdv())
    assert method.draw({"alpha_cell": ALPHA}, "val", stream(0)) == {}
