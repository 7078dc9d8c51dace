"""BayesNAS: its gates, its prior and the Laplace step on hand-made numbers."""

import math

import pytest
import torch
from torch import Tensor

from smallgroup.methods import Continue, EpochEnd
from smallgroup.methods.bayes_nas import BayesNas, updated
from smallgroup.runtime import stream
from smallgroup.testing import SmoothSpace
from tests.methods.cases import ALPHA, at, started

BETA = torch.tensor([0.5, -2.0, 1.0]).double()
ARCHITECTURE = {"alpha_cell": ALPHA, "beta_cell": BETA}


def test_gates_are_what_they_are() -> None:
    method = started(BayesNas())
    mixture = method.mix(ARCHITECTURE, {}, "w")["cell"]
    expected = ALPHA.clone()
    expected[:, 0] = 0  # `none` is not chosen from
    assert torch.equal(mixture.weights, expected)
    assert mixture.edges is BETA
    initial = method.initial(SmoothSpace(), stream(0))
    assert {name: set(t.flatten().tolist()) for name, t in initial.items()} == {
        "alpha_cell": {float(torch.tensor(0.2))},
        "beta_cell": {1.0},
    }


def test_the_penalty_is_the_weighted_sum_of_sizes() -> None:
    method = started(BayesNas(edge_weight=0.1, operation_weight=0.2))
    expected = 0.2 * float(ALPHA.abs().sum()) + 0.1 * 3.5
    assert float(method.penalty(ARCHITECTURE, dict)) == pytest.approx(expected)
    method.state["omega_beta_cell"] = torch.tensor([1.0, 2.0, 3.0]).double()
    expected = 0.2 * float(ALPHA.abs().sum()) + 0.1 * (0.5 + 4 + 3)
    assert float(method.penalty(ARCHITECTURE, dict)) == pytest.approx(expected)


@pytest.mark.parametrize(("gamma", "curvature"), [(1.0, 0.3), (0.2, 5.0), (3.0, 0.0), (2.0, -1.0)])
def test_the_laplace_step(gamma: float, curvature: float) -> None:
    c = 1 / (1 / gamma + max(curvature, 0) / 0.01)
    expected = max(math.sqrt(abs(1 / gamma - c / gamma**2)), 1e-6)
    given = torch.tensor([[gamma], [curvature]], dtype=torch.float64)
    found = updated(given[0], given[1], 0.01)
    assert float(found) == pytest.approx(expected, abs=1e-9)


def test_an_epoch_updates_the_prior_and_what_the_loss_needs_scores_most() -> None:
    """A loss that is flat in all gates but that of one operation of every edge."""
    method = started(BayesNas())

    def loss(architecture: dict[str, Tensor]) -> Tensor:
        return (architecture["alpha_cell"][:, 3] ** 2).sum() + 0.1 * (architecture["beta_cell"] ** 2).sum()

    gates = {"alpha_cell": torch.ones(3, 5).double(), "beta_cell": BETA}
    end = EpochEnd(at(0, 5), gates, None, validation_loss=loss)  # type: ignore[arg-type]
    assert method.end_epoch(end) == Continue()
    omega = updated(torch.ones(1).double(), torch.tensor([2.0]).double(), 0.005)
    torch.testing.assert_close(method.state["omega_alpha_cell"][:, 3], omega.expand(3))
    torch.testing.assert_close(method.state["gamma_alpha_cell"][:, 3], 1 / omega.expand(3))
    edge = updated(torch.ones(1).double(), torch.tensor([0.2]).double(), 0.01)
    torch.testing.assert_close(method.state["gamma_beta_cell"], BETA.abs() / edge)
    total = 1 / (omega + edge / BETA.abs())
    torch.testing.assert_close(method.scores(gates)["cell"][:, 3], total / (1 + total))


def test_a_closed_edge_takes_its_operations_along() -> None:
    method = started(BayesNas())
    method.state["gamma_alpha_cell"] = torch.full((3, 5), 2.0).double()
    method.state["gamma_beta_cell"] = torch.tensor([1e-6, 1.0, 1e6]).double()
    scores = method.scores(ARCHITECTURE)["cell"]
    assert float(scores[0, 1]) < 1e-5 < float(scores[1, 1]) < float(scores[2, 1])
