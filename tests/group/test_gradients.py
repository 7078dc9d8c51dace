"""The architecture gradient against independent derivations, term by term."""

import pytest
import torch

from smallgroup.group import Learner, SmallGroup
from tests.group import oracle
from tests.group.checks import (
    TOLERANCE,
    XI,
    check_changes_nothing,
    check_terms,
    expected_terms,
    group_of,
    term_errors,
)
from tests.group.networks import make_batches, make_learners, same_bits, state_of

KS = [1, 2, 3]
DTYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("count", KS)
def test_exact_terms_equal_the_unrolled_problem(count: int) -> None:
    check_terms(count, "exact", torch.float64, 1e-11)


@pytest.mark.parametrize("count", KS)
def test_float32_exact_equals_float64_exact(count: int) -> None:
    """To 1e-5 of the gradient."""
    double, single = (
        group_of(make_learners(count, dtype), hypergradient="exact").architecture_gradients(*make_batches(dtype))
        for dtype in (torch.float64, torch.float32)
    )
    for k in range(count):
        assert oracle.relative(single[k], double[k]) < 1e-5


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", KS)
def test_finite_difference_terms_equal_exact_ones(count: int, dtype: torch.dtype) -> None:
    check_terms(count, "finite-difference", dtype, TOLERANCE[dtype])


@pytest.mark.parametrize("count", KS)
def test_exact_equals_central_differences_of_the_whole_objective(count: int) -> None:
    learners, batches = make_learners(count), make_batches()
    found = group_of(learners, hypergradient="exact").architecture_gradients(*batches)
    expected = oracle.central_differences(
        learners, batches, list(oracle.ROLE), lam=1.0, step_v=oracle.plain(XI), step_w=oracle.plain(XI)
    )
    for k in range(count):
        assert oracle.relative(found[k], expected[k]) < 1e-6


@pytest.mark.parametrize("term", ["direct", "own", "cross", "label"])
def test_each_exact_term_equals_central_differences_in_its_role(term: str) -> None:
    """The small terms need a wide difference: their values drown in the rounding of the objective otherwise."""
    learners, batches = make_learners(2), make_batches()
    found = group_of(learners, hypergradient="exact").architecture_gradients(*batches, parts=True)
    expected = oracle.central_differences(
        learners, batches, [term], width=1e-4, lam=1.0, step_v=oracle.plain(XI), step_w=oracle.plain(XI)
    )
    for k in range(2):
        assert oracle.relative(found[k][term], expected[k]) < 1e-5


@pytest.mark.parametrize("zeroed", ["direct", "own", "cross", "label"])
def test_the_comparison_sees_a_missing_term(zeroed: str) -> None:
    learners = make_learners(2)
    found = group_of(learners, hypergradient="exact").architecture_gradients(*make_batches(), parts=True)
    for terms in found:
        terms[zeroed] = {name: torch.zeros_like(t) for name, t in terms[zeroed].items()}
    errors = term_errors(found, expected_terms(learners))
    assert {term for (_, term), error in errors.items() if error > 0.5} == {zeroed}


@pytest.mark.parametrize("mode", ["exact", "finite-difference"])
def test_parts_add_up_to_the_gradient(mode: str) -> None:
    group = group_of(make_learners(3), hypergradient=mode)
    for whole, terms in zip(
        group.architecture_gradients(*make_batches()),
        group.architecture_gradients(*make_batches(), parts=True),
        strict=True,
    ):
        for name, tensor in whole.items():
            direct, own, cross, label = (terms[t][name] for t in ("direct", "own", "cross", "label"))
            assert torch.equal(tensor, direct + own + cross + label)


@pytest.mark.parametrize("mode", ["exact", "finite-difference"])
def test_without_label_path_only_that_term_is_gone(mode: str) -> None:
    learners = make_learners(2)
    on, off = (
        group_of(learners, hypergradient=mode, label_path=path).architecture_gradients(*make_batches(), parts=True)
        for path in (True, False)
    )
    for k in range(2):
        assert all(bool(t.any()) for t in on[k]["label"].values())
        assert not any(bool(t.any()) for t in off[k]["label"].values())
        for term in ("direct", "own", "cross"):
            assert same_bits(on[k][term], off[k][term])


def test_first_order_is_the_direct_term_at_the_new_weights() -> None:
    learners = make_learners(3)
    found = group_of(learners, hypergradient="first-order").architecture_gradients(*make_batches(), parts=True)
    for k, terms in enumerate(expected_terms(learners)):
        assert oracle.relative(found[k]["direct"], terms["direct"]) < 1e-12
        assert not any(bool(t.any()) for term in ("own", "cross", "label") for t in found[k][term].values())


@pytest.mark.parametrize("lam", [0.1, 3.0])
def test_lambda_enters_every_term_as_in_the_unrolled_problem(lam: float) -> None:
    learners = make_learners(3)
    found = group_of(learners, hypergradient="exact", lam=lam).architecture_gradients(*make_batches(), parts=True)
    errors = term_errors(found, expected_terms(learners, lam=lam))
    assert len(errors) == 12
    assert max(errors.values()) < 1e-11


def test_different_rates_for_v_and_w() -> None:
    learners = make_learners(2)
    found = group_of(learners, hypergradient="exact", v_lr=0.5, w_lr=0.2).architecture_gradients(
        *make_batches(), parts=True
    )
    expected = expected_terms(learners, step_v=oracle.plain(0.5), step_w=oracle.plain(0.2))
    assert max(term_errors(found, expected).values()) < 1e-11


@pytest.mark.parametrize("mode", ["first-order", "exact", "finite-difference"])
def test_one_learner_has_no_cross_and_label_terms_and_v_is_never_touched(mode: str) -> None:
    for learners, lam in ((make_learners(1), 1.0), (make_learners(2), 0.0)):
        group = group_of(learners, hypergradient=mode, lam=lam)
        before = [{name: t.clone() for name, t in (learner.v or {}).items()} for learner in learners]
        found = group.architecture_gradients(*make_batches(), parts=True)
        report = group.step(*make_batches())
        for k, learner in enumerate(learners):
            assert not any(bool(t.any()) for term in ("cross", "label") for t in found[k][term].values())
            assert same_bits(before[k], learner.v or {})
            assert report.learners[k].v_loss is None


def test_one_learner_gives_the_gradient_of_darts() -> None:
    """Written out for a single learner: W' = W - xi grad_W L_tr; d/dA L_val(W'(A), A), without and with the path."""
    (learner,) = make_learners(1)
    (x, y), u, (x_v, y_v) = make_batches()
    a = {n: t.clone().requires_grad_() for n, t in learner.architecture.items()}
    w = {n: t.clone().requires_grad_() for n, t in learner.w.items()}

    def loss(weights: oracle.Tensors, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(learner.logits(weights, a, inputs, "w"), labels)

    g = torch.autograd.grad(loss(w, x, y), list(w.values()), create_graph=True)
    moved = {n: p - XI * d for (n, p), d in zip(w.items(), g, strict=True)}
    second = torch.autograd.grad(loss(moved, x_v, y_v), list(a.values()), retain_graph=True)
    first = torch.autograd.grad(loss({n: p.detach() for n, p in moved.items()}, x_v, y_v), list(a.values()))
    for mode, expected in (("first-order", first), ("exact", second)):
        (found,) = group_of([learner], hypergradient=mode).architecture_gradients((x, y), u, (x_v, y_v))
        assert oracle.relative(found, dict(zip(a, expected, strict=True))) < 1e-12


@pytest.mark.parametrize("mode", ["first-order", "exact", "finite-difference"])
def test_an_independent_learner_equals_a_learner_alone_bit_for_bit(mode: str) -> None:
    learners = make_learners(3)
    group = group_of(learners, lam=0.0, hypergradient=mode, architecture_lr=0.5)
    alone = [group_of([learner], hypergradient=mode, architecture_lr=0.5) for learner in make_learners(3)]
    for seed in range(4):
        batches = make_batches(seed=seed)
        report = group.step(*batches)
        for k in range(3):
            mine = alone[k].step(*batches).learners[0]
            assert same_bits(mine.gradient, report.learners[k].gradient)
    for k in range(3):
        assert same_bits(state_of([learners[k]]), state_of(alone[k].learners))


@pytest.mark.parametrize("mode", ["first-order", "exact", "finite-difference"])
def test_permuting_the_learners_permutes_the_result(mode: str) -> None:
    order = [2, 0, 1]
    straight, permuted = make_learners(3), make_learners(3)
    batches = make_batches()
    found = group_of(straight, hypergradient=mode).architecture_gradients(*batches)
    other = group_of([permuted[k] for k in order], hypergradient=mode).architecture_gradients(*batches)
    for position, k in enumerate(order):
        assert oracle.relative(other[position], found[k]) < 1e-10


@pytest.mark.parametrize("mode", ["first-order", "exact", "finite-difference"])
def test_duplicating_every_unlabeled_image_changes_nothing(mode: str) -> None:
    train, u, validation = make_batches()
    group = group_of(make_learners(3), hypergradient=mode)
    once = group.architecture_gradients(train, u, validation, parts=True)
    twice = group.architecture_gradients(train, torch.cat([u, u]), validation, parts=True)
    for k in range(3):
        for term in ("direct", "own", "cross", "label"):
            if once[k][term] and any(bool(t.any()) for t in once[k][term].values()):
                assert oracle.relative(twice[k][term], once[k][term]) < 1e-9


@pytest.mark.parametrize("mode", ["first-order", "exact", "finite-difference"])
@pytest.mark.parametrize("count", [1, 3])
def test_computing_the_gradient_changes_nothing(mode: str, count: int) -> None:
    check_changes_nothing(group_of(make_learners(count), hypergradient=mode), make_batches())


def test_learners_may_be_plain_functions_of_three_arguments() -> None:
    def linear(weights: oracle.Tensors, architecture: oracle.Tensors, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.flatten(1) * architecture["scale"].exp() @ weights["matrix"]

    def build(seed: int) -> Learner:
        generator = torch.Generator().manual_seed(seed)
        matrices = [torch.randn(72, 4, generator=generator, dtype=torch.float64) / 8 for _ in range(2)]
        return Learner(linear, {"scale": torch.zeros(72).double()}, {"matrix": matrices[0]}, {"matrix": matrices[1]})

    learners = [build(0), build(1)]
    found = group_of(learners, hypergradient="exact").architecture_gradients(*make_batches(), parts=True)
    errors = term_errors(found, expected_terms(learners))
    assert len(errors) == 8
    assert max(errors.values()) < 1e-11


def test_the_default_is_the_papers_mode() -> None:
    learners = make_learners(2)
    batches = make_batches()
    default = SmallGroup(learners).architecture_gradients(*batches)
    named = SmallGroup(
        learners, lam=1.0, hypergradient="finite-difference", label_path=True, radius=0.01, v_lr=0.025, w_lr=0.025
    ).architecture_gradients(*batches)
    assert all(same_bits(a, b) for a, b in zip(default, named, strict=True))


def test_works_under_no_grad_and_with_parameters_that_require_gradients() -> None:
    learners = make_learners(2)
    for learner in learners:
        for tensor in (*learner.w.values(), *(learner.v or {}).values(), *learner.architecture.values()):
            tensor.requires_grad_()
    with torch.no_grad():
        found = group_of(learners, hypergradient="exact").architecture_gradients(*make_batches(), parts=True)
    assert max(term_errors(found, expected_terms(make_learners(2))).values()) < 1e-11
