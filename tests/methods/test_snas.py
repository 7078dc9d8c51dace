"""SNAS against its formulas."""

import torch

from smallgroup.methods.snas import Snas
from smallgroup.runtime import stream
from smallgroup.testing import SmoothSpace
from tests.methods.cases import ALPHA, at, fits, started, wide


def test_the_mixture_is_the_concrete_sample_of_its_noise() -> None:
    method = started(Snas())
    method.schedule(at(5, 11))
    noise = method.draw({"alpha_cell": ALPHA}, "w", stream(0))["cell"]
    tau = (1 + 0.03) / 2
    expected = ((ALPHA + noise) / tau).exp()
    found = method.mix({"alpha_cell": ALPHA}, {"cell": noise}, "w")["cell"]
    torch.testing.assert_close(found.weights, expected / expected.sum(dim=1, keepdim=True))
    assert found.evaluate == "all"


def test_the_largest_weight_is_drawn_by_the_softmax() -> None:
    method, architecture = wide(Snas(), ALPHA[0])
    noise = method.draw(architecture, "val", stream(1))
    weights = method.mix(architecture, noise, "val")["cell"].weights
    assert fits(weights.argmax(dim=1).bincount(minlength=5), ALPHA[0].softmax(dim=0))


def test_evaluation_has_no_noise() -> None:
    method = started(Snas())
    weights = method.mix({"alpha_cell": ALPHA}, method.draw({"alpha_cell": ALPHA}, None, stream(0)), None)["cell"]
    torch.testing.assert_close(weights.weights, ALPHA.softmax(dim=1))


def test_it_cools_linearly() -> None:
    method = started(Snas())
    found = []
    for epoch in (0, 75, 150):
        method.schedule(at(epoch, 151))
        found.append(float(method.state["temperature"]))
    torch.testing.assert_close(found, [1.0, 0.515, 0.03])


def test_it_begins_around_one() -> None:
    (alpha,) = Snas().initial(SmoothSpace(), stream(3)).values()
    assert 0 < float((alpha - 1).abs().max()) < 0.05
    assert 0.003 < float(alpha.std()) < 0.03


def test_the_penalty_is_the_log_of_the_expected_cost() -> None:
    costs = {"cell": torch.arange(15.0).reshape(3, 5).double()}
    assert started(Snas()).penalty({"alpha_cell": ALPHA}, lambda: costs) is None
    found = started(Snas(cost_weight=1.5e-3)).penalty({"alpha_cell": ALPHA}, lambda: costs)
    assert found is not None
    p_of, c_of = ALPHA.softmax(dim=1).flatten().tolist(), costs["cell"].flatten().tolist()
    expected = sum(p * c for p, c in zip(p_of, c_of, strict=True))
    torch.testing.assert_close(found, 1.5e-3 * torch.tensor(expected, dtype=torch.float64).log())
