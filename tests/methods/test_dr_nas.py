"""DrNAS against the Dirichlet distribution."""

import pytest
import torch
from scipy import stats
from torch.distributions import Dirichlet, kl_divergence

from smallgroup.methods import Continue, EpochEnd, Rebuild, Relaxed
from smallgroup.methods.dr_nas import DrNas, concentration
from smallgroup.methods.pc_darts import PartialEdge
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from tests.methods.cases import ALPHA, DRAWS, at, fits, started, wide

ROW = torch.tensor([0.0, -0.7, 0.4, 1.5, -0.1]).double()


def test_concentrations_are_elu_plus_one() -> None:
    expected = [1.0, 2.718281828459045**-0.7, 1.4, 2.5, 2.718281828459045**-0.1]
    torch.testing.assert_close(concentration(ROW), torch.tensor(expected).double())
    assert float(concentration(torch.tensor(-torch.inf))) == 0


def test_shares_follow_their_beta_distributions() -> None:
    """Share i of Dir(c) is Beta(c_i, sum of the others): ten bins of equal probability."""
    method, architecture = wide(DrNas(none=True), ROW)
    sample = method.draw(architecture, "w", stream(0))["cell"]
    torch.testing.assert_close(sample.sum(dim=1), torch.ones(DRAWS).double())
    c = concentration(ROW)
    for i in range(5):
        inner = stats.beta.ppf([k / 10 for k in range(1, 10)], float(c[i]), float(c.sum() - c[i]))
        counts = torch.bucketize(sample[:, i].contiguous(), torch.tensor(inner)).bincount(minlength=10)
        assert fits(counts, torch.full((10,), 0.1)), i


def test_what_is_removed_has_no_share_and_the_others_are_dirichlet() -> None:
    kept = torch.tensor([False, True, True, False, True])
    method, architecture = wide(DrNas(none=True), ROW, kept)
    sample = method.draw(architecture, "w", stream(1))["cell"]
    assert not bool(sample[:, ~kept].any())
    c = concentration(ROW)[kept]
    inner = stats.beta.ppf([k / 10 for k in range(1, 10)], float(c[0]), float(c[1:].sum()))
    assert fits(
        torch.bucketize(sample[:, 1].contiguous(), torch.tensor(inner)).bincount(minlength=10), torch.full((10,), 0.1)
    )


def test_the_gradient_is_that_of_torch_at_the_same_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    method = started(DrNas(none=True))
    noise = method.draw({"alpha_cell": ALPHA}, "w", stream(2))
    upstream = torch.randn(3, 5, generator=stream(3), dtype=torch.float64)
    alpha, other = ALPHA.clone().requires_grad_(), ALPHA.clone().requires_grad_()
    weights = method.mix({"alpha_cell": alpha}, noise, "w")["cell"].weights
    assert torch.equal(weights.detach(), noise["cell"])
    monkeypatch.setattr(torch, "_sample_dirichlet", lambda *_: noise["cell"])
    expected = Dirichlet(torch.nn.functional.elu(other) + 1).rsample()
    found, wanted = (torch.autograd.grad((w * upstream).sum(), a)[0] for w, a in ((weights, alpha), (expected, other)))
    torch.testing.assert_close(found, wanted)


def test_gradients_average_to_those_of_the_second_moments() -> None:
    """E[x_i^2] = c_i (c_i + 1) / (s (s + 1)); a mean over 100,000 samples within four standard errors."""
    method, architecture = wide(DrNas(none=True), ROW)
    noise = method.draw(architecture, "w", stream(4))
    alpha = architecture["alpha_cell"].requires_grad_()
    weights = method.mix(architecture, noise, "w")["cell"].weights
    row = ROW.clone().requires_grad_()
    c = torch.nn.functional.elu(row) + 1
    for i in (1, 3):
        (found,) = torch.autograd.grad((weights[:, i] ** 2).sum(), alpha, retain_graph=True)
        (expected,) = torch.autograd.grad(c[i] * (c[i] + 1) / (c.sum() * (c.sum() + 1)), row, retain_graph=True)
        error = found.std(dim=0) / DRAWS**0.5
        assert bool(((found.mean(dim=0) - expected).abs() < 4 * error + 1e-12).all())


def test_evaluation_takes_the_mean() -> None:
    method = started(DrNas(none=True))
    weights = method.mix({"alpha_cell": ALPHA}, method.draw({"alpha_cell": ALPHA}, None, stream(0)), None)["cell"]
    torch.testing.assert_close(weights.weights, Dirichlet(concentration(ALPHA)).mean)


@pytest.mark.parametrize("scale", [-40.0, -5.0, 40.0])
def test_gradients_are_finite_far_away(scale: float) -> None:
    method = started(DrNas())
    alpha = (scale * ALPHA.abs()).requires_grad_()
    noise = method.draw({"alpha_cell": alpha.detach()}, "w", stream(5))
    weights = method.mix({"alpha_cell": alpha}, noise, "w")["cell"].weights
    (found,) = torch.autograd.grad((weights**2).sum(), alpha)
    assert bool(weights.isfinite().all())
    assert bool(found.isfinite().all())


def test_the_divergence_is_that_of_the_kept_operations() -> None:
    found = started(DrNas(divergence=1e-3)).penalty({"alpha_cell": ALPHA}, dict)
    c = concentration(ALPHA[:, 1:])  # `none` is not among them
    assert found is not None
    torch.testing.assert_close(found, 1e-3 * kl_divergence(Dirichlet(c), Dirichlet(torch.ones_like(c))).mean())
    assert started(DrNas()).penalty({"alpha_cell": ALPHA}, dict) is None


def test_a_stage_ends_with_the_strongest_operations_on_more_channels() -> None:
    space = NasBench201Space(channels=4, cells_per_stage=1, images=ImageSpec(10, 3, 8))
    relaxed = Relaxed(space, DrNas(parts=(4, 2), kept=(3,), none=True))
    architecture = {"alpha_cell": torch.tensor([[0.1, 0.5, -0.2, 0.3, 0.0]] * 6)}
    before = sum(p.numel() for p in relaxed.supernet.parameters())

    def end(epoch: int, stage: int) -> object:
        return relaxed.method.end_epoch(EpochEnd(at(epoch, 2, stage=stage), architecture, None))

    assert end(0, 0) == Continue()
    decision = end(1, 0)
    assert isinstance(decision, Rebuild)
    assert decision.keep_architecture
    assert relaxed.method.mask("cell").tolist() == [[True, True, False, True, False]] * 6
    relaxed.rebuild(decision)
    edges = [module for module in relaxed.supernet.modules() if isinstance(module, PartialEdge)]
    assert {(edge.groups, len(edge.operations)) for edge in edges} == {(2, 3)}
    assert sum(p.numel() for p in relaxed.supernet.parameters()) != before
    assert end(1, 1) == Continue()


def test_stages_and_kept_operations_must_match() -> None:
    with pytest.raises(ValueError, match="a part per stage and kept operations per later stage, but got 2 in parts"):
        DrNas(parts=(6, 4))
