"""The built-in methods against closed forms."""

import inspect
from pathlib import Path

import pytest
import torch

from smallgroup.methods import METHODS, Darts, FairDarts, Gdas, Method, Progress, Relaxed
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import OPERATIONS, DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.testing import SmoothSpace

ALPHA = torch.tensor([[0.2, -0.4, 1.0, 0.0, 0.3], [2.0, 0.1, -1.0, 0.5, 0.2], [0.0, 0.0, 0.0, 0.0, 0.0]]).double()


def started(method: Method) -> Method:
    method.start(SmoothSpace())
    return method


def test_darts_is_a_small_file() -> None:
    assert len(Path(inspect.getfile(Darts)).read_text().splitlines()) < 20


def test_methods_are_known_by_their_names() -> None:
    assert {"darts", "darts-minus", "fair-darts", "gdas", "p-darts", "pc-darts"} < set(METHODS.built_in)
    assert all(name == method.name for name, method in METHODS.items())


def test_lists_say_which_methods_were_published_as_single_level() -> None:
    single = {name for name in METHODS.built_in if METHODS[name].level == "single"}
    assert single == {"snas", "drop-nas", "dsnas"}
    words = "Published as single-level; here alpha follows validation data."
    assert {name for name in METHODS.built_in if words in METHODS.about(name)} == single


def test_darts_mixes_by_softmax() -> None:
    (mixture,) = started(Darts()).mix({"alpha_cell": ALPHA}, {}, "w").values()
    torch.testing.assert_close(mixture.weights, ALPHA.exp() / ALPHA.exp().sum(dim=1, keepdim=True))
    assert mixture.evaluate == "all"


def test_darts_begins_with_small_normal_numbers() -> None:
    found = Darts().initial(DartsSpace(), stream(0))
    assert {name: tuple(t.shape) for name, t in found.items()} == {"alpha_normal": (14, 8), "alpha_reduce": (14, 8)}
    both = torch.cat(list(found.values()))
    assert abs(float(both.std()) - 1e-3) < 1e-4


def test_the_sample_of_gdas_is_one_hot_and_follows_the_gumbel_max_trick() -> None:
    """Argmax of log p + G has probability p: over many draws within four standard deviations."""
    method, count = started(Gdas()), 4000
    p = ALPHA.softmax(dim=1)
    frequencies = torch.zeros_like(p)
    generator = stream("draws")
    for _ in range(count):
        noise = method.draw({"alpha_cell": ALPHA}, "w", generator)
        weights = method.mix({"alpha_cell": ALPHA}, noise, "w")["cell"].weights
        assert bool(((weights != 0).sum(dim=1) == 1).all())
        torch.testing.assert_close(weights.sum(dim=1), torch.ones(3, dtype=torch.float64))
        frequencies += (weights != 0) / count
    assert bool(((frequencies - p).abs() < 4 * (p * (1 - p) / count).sqrt()).all())


def test_the_gradient_of_gdas_is_that_of_the_tempered_softmax() -> None:
    """d w_i / d alpha_j = p_i (delta_ij - p_j) / tau, because log softmax shifts a row by a constant."""
    method, tau = started(Gdas()), 2.5
    method.state["temperature"] = torch.tensor(tau)
    noise = method.draw({"alpha_cell": ALPHA}, "w", stream("draws"))
    alpha = ALPHA.clone().requires_grad_()
    weights = method.mix({"alpha_cell": alpha}, noise, "w")["cell"].weights
    p = ((ALPHA + noise["cell"]) / tau).softmax(dim=1)
    for edge in range(3):
        for i in range(5):
            (found,) = torch.autograd.grad(weights[edge, i], alpha, retain_graph=True)
            expected = torch.zeros_like(ALPHA)
            expected[edge] = p[edge, i] * (torch.eye(5).double()[i] - p[edge]) / tau
            torch.testing.assert_close(found, expected)


def test_gdas_cools_linearly_from_epoch_to_epoch() -> None:
    method = started(Gdas())
    assert method.temperature == 10  # type: ignore[attr-defined]
    found = []
    for epoch in (0, 25, 50):
        method.schedule(Progress(epoch=epoch, epochs=51, step=0, steps=1))
        found.append(method.temperature)  # type: ignore[attr-defined]
    assert found == pytest.approx([10, 5.05, 0.1])


def test_only_the_drawn_operation_of_gdas_runs_and_gets_a_gradient() -> None:
    space = DartsSpace(channels=2, cells=3, stem="small", images=ImageSpec(10, 3, 8))
    relaxed = Relaxed(space, Gdas())
    architecture = relaxed.initial_architecture()
    weights = {n: t.requires_grad_() for n, t in relaxed.initial_weights("w").items()}
    logits = relaxed(weights, architecture, torch.randn(4, 3, 8, 8, generator=stream(1)), phase="w")
    found = torch.autograd.grad(logits.square().sum(), list(weights.values()), allow_unused=True)
    reached = {name for name, g in zip(weights, found, strict=True) if g is not None}
    noise = relaxed.noise(architecture, "w")
    chosen = (architecture["alpha_normal"].log_softmax(dim=1) + noise["normal"]).argmax(dim=1)
    for name in weights:
        if name.startswith("cells.0.nodes.edges"):
            edge, operation = int(name.split(".")[4]), name.split(".")[6]
            assert (OPERATIONS[chosen[edge]] == operation) or name not in reached, name
    assert any(name.startswith("cells.0.nodes.edges") for name in reached)


def test_fair_darts_has_sigmoids_that_do_not_compete() -> None:
    method = started(FairDarts())
    weights = method.mix({"alpha_cell": ALPHA}, {}, "w")["cell"].weights
    expected = 1 / (1 + (-ALPHA).exp())
    expected[:, 0] = 0  # `none` is not chosen from
    torch.testing.assert_close(weights, expected)


def test_fair_darts_begins_at_one_half_and_is_driven_away_from_it() -> None:
    method = started(FairDarts())
    assert not any(t.any() for t in method.initial(SmoothSpace(), stream(0)).values())
    penalty = method.penalty({"alpha_cell": ALPHA}, dict)
    sigmoid = 1 / (1 + (-ALPHA[:, 1:]).exp())
    assert penalty is not None
    torch.testing.assert_close(penalty, -10 * ((sigmoid - 0.5) ** 2).sum() / 12)


def test_fair_darts_derives_by_threshold_in_both_spaces() -> None:
    low, high = torch.full((14, 8), -3.0), torch.full((14, 8), -3.0)
    high[0, OPERATIONS.index("sep_conv_5x5")] = 3.0
    method = FairDarts()
    method.start(DartsSpace())
    genotype = method.derive(DartsSpace(), {"alpha_normal": high, "alpha_reduce": low})
    assert [len(edges) for edges in genotype.normal.nodes] == [1, 0, 0, 0]
    benchmark = FairDarts()
    benchmark.start(NasBench201Space())
    alpha = torch.full((6, 5), -3.0)
    alpha[3, 3] = 3.0
    cell = benchmark.derive(NasBench201Space(), {"alpha_cell": alpha})
    assert str(cell) == "|none~0|+|none~0|none~1|+|nor_conv_3x3~0|none~1|none~2|"
