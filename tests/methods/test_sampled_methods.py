"""GDAS, PARSEC, DSNAS and ProxylessNAS: what they draw, and the gradients of their draws in closed form."""

import itertools

import pytest
import torch
from torch import Tensor

from smallgroup import kernels
from smallgroup.methods import EpochEnd, Gdas, Method, Relaxed
from smallgroup.methods.dsnas import Dsnas
from smallgroup.methods.parsec import Parsec
from smallgroup.methods.proxyless import Proxyless
from smallgroup.runtime import stream
from smallgroup.testing import SmoothSpace
from smallgroup.testing.groups import batches_for
from tests.methods.cases import ALPHA, at, fits, started, wide

P = ALPHA.softmax(dim=1)
UPSTREAM = torch.randn(3, 5, generator=stream("upstream"), dtype=torch.float64)
COSTS = {"cell": torch.tensor([[0.0, 0.0, 4.0, 9.0, 1.0]] * 3).double()}


@pytest.mark.parametrize("method", [Gdas(), Parsec(), Dsnas(), Proxyless()], ids=lambda method: method.name)
def test_the_drawn_operation_follows_the_softmax(method: Method) -> None:
    wider, architecture = wide(method, ALPHA[0])
    wider.state["real_cell"] = torch.ones(5, dtype=torch.bool)
    weights = wider.mix(architecture, wider.draw(architecture, "w", stream(0)), "w")["cell"].weights
    assert bool(((weights != 0).sum(dim=1) == 1).all())
    assert fits(weights.argmax(dim=1).bincount(minlength=5), P[0])


@pytest.mark.parametrize("method", [Parsec(), Dsnas(), Proxyless(gates="two")], ids=lambda method: method.name)
def test_evaluation_takes_the_most_probable_operation(method: Method) -> None:
    started(method)
    architecture = {"alpha_cell": ALPHA}
    weights = method.mix(architecture, method.draw(architecture, None, stream(0)), None)["cell"].weights
    assert weights.argmax(dim=1).tolist()[:2] == [2, 0]  # in the third row all are equal


def gradient(method: Method, noise: dict[str, Tensor]) -> tuple[Tensor, list[int]]:
    """That of sum w_i u_i in alpha, and what was drawn."""
    alpha = ALPHA.clone().requires_grad_()
    weights = method.mix({"alpha_cell": alpha}, noise, "val")["cell"].weights
    (found,) = torch.autograd.grad((weights * UPSTREAM).sum(), alpha)
    return found, weights.detach().argmax(dim=1).tolist()


def test_dsnas_follows_the_log_probability_of_the_drawn_operation() -> None:
    """u_z (delta_iz - p_i)."""
    method = started(Dsnas())
    found, chosen = gradient(method, dict(method.draw({"alpha_cell": ALPHA}, "val", stream(1))))
    for edge, z in enumerate(chosen):
        expected = [float(UPSTREAM[edge, z]) * ((i == z) - float(P[edge, i])) for i in range(5)]
        torch.testing.assert_close(found[edge], torch.tensor(expected, dtype=torch.float64))


def test_dsnas_fixes_edges_that_are_decided() -> None:
    method = started(Dsnas())
    shares = torch.tensor(
        [[0.1, 0.51, 0.2, 0.1, 0.09], [0.1, 0.45, 0.2, 0.15, 0.1], [0.9, 0.1, 0.0, 0.0, 0.0]]
    ).double()
    method.end_epoch(EpochEnd(at(3, 9), {"alpha_cell": (shares + 1e-9).log()}, None))
    assert method.mask("cell").long().tolist() == [[0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]


def test_dsnas_pays_for_what_is_expected_above_its_limit() -> None:
    expected = float((P * COSTS["cell"]).sum())
    for limit, excess in ((1.0, expected - 1.0), (100.0, 0.0)):
        found = started(Dsnas(cost_weight=0.5, cost_limit=limit)).penalty({"alpha_cell": ALPHA}, lambda: COSTS)
        assert found is not None
        assert float(found) == pytest.approx(0.5 * excess)
    assert started(Dsnas()).penalty({"alpha_cell": ALPHA}, lambda: COSTS) is None


def test_all_gates_of_proxyless_have_a_gradient() -> None:
    """sum_j u_j p_j (delta_ij - p_i); none where `none` was drawn."""
    method = started(Proxyless())
    for seed in range(6):
        found, chosen = gradient(method, dict(method.draw({"alpha_cell": ALPHA}, "val", stream("full", seed))))
        for edge, z in enumerate(chosen):
            mean = float((UPSTREAM[edge] * P[edge]).sum())
            expected = [(z > 0) * float(P[edge, i]) * (float(UPSTREAM[edge, i]) - mean) for i in range(5)]
            torch.testing.assert_close(found[edge], torch.tensor(expected, dtype=torch.float64))


def test_two_gates_are_drawn_without_replacement_and_one_of_them_by_their_own_softmax() -> None:
    method, architecture = wide(Proxyless(gates="two"), ALPHA[0])
    method.state["real_cell"] = torch.ones(5, dtype=torch.bool)
    mixture = method.mix(architecture, method.draw(architecture, "val", stream(2)), "val")["cell"]
    open_gates, chosen = torch.tensor(mixture.kept), mixture.weights.argmax(dim=1)
    assert bool((open_gates.sum(dim=1) == 2).all())
    p = P[0].tolist()
    counts, expected = [], []
    for i, j in itertools.combinations(range(5), 2):
        pair = p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])
        both = open_gates[:, i] & open_gates[:, j]
        for one, other in ((i, j), (j, i)):
            counts.append(int((both & (chosen == one)).sum()))
            expected.append(pair * p[one] / (p[one] + p[other]))
    assert sum(expected) == pytest.approx(1)
    assert fits(torch.tensor(counts), torch.tensor(expected))


def test_two_gates_have_the_gradient_of_their_own_softmax() -> None:
    method = started(Proxyless(gates="two"))
    noise = dict(method.draw({"alpha_cell": ALPHA}, "val", stream(3)))
    found, chosen = gradient(method, noise)
    kept = method.mix({"alpha_cell": ALPHA}, noise, "val")["cell"].kept
    assert kept is not None
    for edge, z in enumerate(chosen):
        pair = [i for i in range(5) if kept[edge][i]]
        q = ALPHA[edge, pair].softmax(dim=0)
        mean = float((q * UPSTREAM[edge, pair]).sum())
        expected = torch.zeros(5, dtype=torch.float64)
        for share, i in zip(q.tolist(), pair, strict=True):
            expected[i] = (z > 0) * share * (float(UPSTREAM[edge, i]) - mean)
        torch.testing.assert_close(found[edge], expected)


def test_after_a_step_two_gates_are_as_probable_as_before() -> None:
    method = started(Proxyless(gates="two"))
    noise = method.draw({"alpha_cell": ALPHA}, "val", stream(3))
    kept = torch.tensor(method.mix({"alpha_cell": ALPHA}, noise, "val")["cell"].kept)
    after = {"alpha_cell": ALPHA + kept * torch.randn(3, 5, generator=stream(4)).double()}
    method.after_step(after, {"alpha_cell": ALPHA}, noise)
    now = after["alpha_cell"].softmax(dim=1)
    torch.testing.assert_close(now[~kept], P[~kept])
    assert float((now - P)[kept].abs().max()) > 1e-3


@pytest.mark.parametrize(("gates", "most", "least"), [("full", 24, 24), ("two", 12, 6)])
def test_a_weight_step_of_proxyless_runs_one_operation_and_an_architecture_step_all_gates(
    gates: str, most: int, least: int
) -> None:
    space = SmoothSpace()
    relaxed = Relaxed(space, Proxyless(gates=gates))  # type: ignore[arg-type]
    weights, architecture = relaxed.initial_weights("w"), relaxed.initial_architecture()
    calls: list[str] = []
    for name, module in relaxed.supernet.named_modules():
        if name.rpartition(".")[0].endswith("operations"):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    (x, _), _, _ = batches_for(space, torch.float32)
    with kernels.using("plain"):
        relaxed(weights, architecture, x, phase="w")
    assert 0 < len(calls) == len(set(calls)) <= 6  # two cells of three edges; `none` is nothing
    calls.clear()
    with kernels.using("plain"):
        relaxed(weights, {name: a.requires_grad_() for name, a in architecture.items()}, x, phase="val")
    assert len(calls) == len(set(calls))
    assert least <= len(calls) <= most


def test_proxyless_moves_its_architecture_in_every_fifth_step() -> None:
    method = Proxyless()
    assert [step for step in range(15) if method.trains_architecture(at(0, 1, step=step))] == [4, 9, 14]


def test_proxyless_pays_relative_to_equal_probabilities() -> None:
    found = started(Proxyless(cost_weight=0.1)).penalty({"alpha_cell": ALPHA}, lambda: COSTS)
    assert found is not None
    expected, reference = float((P * COSTS["cell"]).sum()), float(COSTS["cell"].sum()) / 5
    assert float(found) == pytest.approx(0.1 * (expected - reference) / reference)


def test_the_log_probability_of_a_child_is_the_sum_over_its_edges() -> None:
    method = started(Parsec())
    noise = method.draw({"alpha_cell": ALPHA}, "w", stream(5))
    chosen = method.mix({"alpha_cell": ALPHA}, noise, "w")["cell"].weights.argmax(dim=1)
    expected = sum(float(P[edge, z].log()) for edge, z in enumerate(chosen))
    assert float(method.log_probability({"alpha_cell": ALPHA}, noise)) == pytest.approx(expected)


def test_the_loss_of_parsec_is_the_marginal_likelihood_and_its_gradients_are_the_paper_s() -> None:
    losses = torch.tensor([0.5, 0.7, 0.4], dtype=torch.float64, requires_grad=True)
    log_p = torch.tensor([-1.0, -2.0, -0.5], dtype=torch.float64, requires_grad=True)
    found = Parsec().combine(losses, log_p, 8)
    torch.testing.assert_close(found, -(-8 * losses).exp().mean().log() / 8)
    omega = (-8 * losses.detach()).softmax(dim=0)
    of_losses, of_log_p = torch.autograd.grad(found, (losses, log_p))
    torch.testing.assert_close(of_losses, omega)
    torch.testing.assert_close(-8 * of_log_p, omega)


def test_many_children_follow_the_enumerated_marginal_likelihood() -> None:
    """One edge, five children with known losses: d/dalpha log sum_i p_i exp(-L_i), from 100,000 samples."""
    method, architecture = wide(Parsec(), ALPHA[0])
    noise = method.draw(architecture, "w", stream(6))["cell"]
    alpha = ALPHA[0].clone().requires_grad_()
    likelihood = torch.tensor([0.9, 0.2, 0.6, 0.1, 0.4]).double()
    chosen = (ALPHA[0] + noise).argmax(dim=1)
    log_p = alpha.log_softmax(dim=0)[chosen]
    (found,) = torch.autograd.grad(-method.combine(-likelihood[chosen].log(), log_p, 1), alpha, retain_graph=True)
    (expected,) = torch.autograd.grad((alpha.softmax(dim=0) * likelihood).sum().log(), alpha)
    torch.testing.assert_close(found, expected, atol=5e-3, rtol=0)
