"""beta-DARTS against its formulas."""

import math

import pytest
import torch

from smallgroup.methods.beta_darts import BetaDarts
from tests.methods.cases import ALPHA, at, started


def test_the_penalty_is_the_mean_smooth_maximum_of_each_kind() -> None:
    method = started(BetaDarts())
    method.state |= {"mask_other": torch.ones(3, 5, dtype=torch.bool)}
    method.schedule(at(20, 100))
    rows = [math.log(sum(math.exp(a) for a in row)) for row in ALPHA.tolist()]
    twice = [math.log(sum(math.exp(2 * a) for a in row)) for row in ALPHA.tolist()]
    found = method.penalty({"alpha_cell": ALPHA, "alpha_other": 2 * ALPHA}, dict)
    assert float(found) == pytest.approx(10 * (sum(rows) / 3 + sum(twice) / 3))


def test_its_weight_grows_by_a_half_in_each_of_a_hundred_epochs() -> None:
    method = started(BetaDarts())
    found = []
    for epoch, epochs in ((0, 100), (1, 100), (99, 100), (25, 50)):
        method.schedule(at(epoch, epochs))
        found.append(float(method.state["weight"]))
    assert found == pytest.approx([0, 0.5, 49.5, 25])


def test_what_is_removed_is_not_penalized() -> None:
    method = started(BetaDarts())
    kept = torch.tensor([[True, True, True, True, False]] * 3)
    method.keep("cell", kept)
    method.schedule(at(1, 2))
    rows = [math.log(sum(math.exp(a) for a in row[:4])) for row in ALPHA.tolist()]
    assert float(method.penalty({"alpha_cell": ALPHA}, dict)) == pytest.approx(25 * sum(rows) / 3)
