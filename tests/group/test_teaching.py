"""Ablations and controls: each setting of stage 2 against its own unrolled problem."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.group import Classification, Learner, SmallGroup
from smallgroup.group.teaching import Teaching
from smallgroup.runtime import stream
from tests.group import oracle
from tests.group.checks import expected_terms, group_of, term_errors
from tests.group.networks import make_batches, make_learners, same_bits, state_of

DIRECT_OWN = {"direct", "own"}
ALL = {"direct", "own", "cross", "label"}

# Name: switches, the terms that exist, whether V is trained.
SETTINGS: dict[str, tuple[dict[str, Any], set[str], bool]] = {
    "full": ({}, ALL, True),
    "without first stage": ({"labels_from": "w"}, DIRECT_OWN, False),
    "without first stage, joint": ({"labels_from": "w-joint"}, {"direct", "own", "label"}, False),
    "separate": ({"labels_from": "frozen"}, DIRECT_OWN, False),
    "without human labels": ({"human_labels": False}, ALL, True),
    "self-taught": ({"targets": "own"}, ALL, True),
    "uniform": ({"targets": "uniform"}, DIRECT_OWN, False),
    "lambda": ({"lam": 2.0}, ALL, True),
    "joint, lambda": ({"labels_from": "w-joint", "lam": 2.0}, {"direct", "own", "label"}, False),
    "without human labels lambda plays no part": ({"human_labels": False, "lam": 2.0}, ALL, True),
    "self-taught without human labels": ({"targets": "own", "human_labels": False}, ALL, True),
}


def switches(name: str, count: int) -> dict[str, Any]:
    options = dict(SETTINGS[name][0])
    if options.get("labels_from") == "frozen":
        options["labels_from"] = [learner.frozen() for learner in make_learners(count, seed=99)]
    return options


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_equals_its_unrolled_problem(name: str, count: int) -> None:
    learners, options = make_learners(count), switches(name, count)
    expected = expected_terms(learners, **options)
    exact = group_of(learners, hypergradient="exact", **options)
    errors = term_errors(exact.architecture_gradients(*make_batches(), parts=True), expected)
    assert {term for _, term in errors} == SETTINGS[name][1]
    assert max(errors.values()) < 1e-11, errors
    near = group_of(learners, hypergradient="finite-difference", **options)
    errors = term_errors(near.architecture_gradients(*make_batches(), parts=True), expected)
    assert max(errors.values()) < 1e-3, errors


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
@pytest.mark.parametrize("name", SETTINGS)
def test_v_is_trained_only_where_somebody_learns_from_it(name: str, mode: str) -> None:
    learners = make_learners(2)
    group = group_of(learners, hypergradient=mode, **switches(name, 2))
    before = [{n: t.clone() for n, t in (a.v or {}).items()} for a in learners]
    expected = group.architecture_gradients(*make_batches())
    report = group.step(*make_batches())
    for k, learner in enumerate(learners):
        assert same_bits(before[k], learner.v or {}) != SETTINGS[name][2]
        assert (report.learners[k].v_loss is not None) == SETTINGS[name][2]
        assert same_bits(report.learners[k].gradient, expected[k])
        assert report.learners[k].skipped == {}


def test_the_weights_of_every_setting_move_as_its_objective_says() -> None:
    """The unrolled problem's own W', by the direct term: it is taken at W'."""
    for name in SETTINGS:
        learners, options = make_learners(2), switches(name, 2)
        expected = expected_terms(learners, **options)
        report = group_of(learners, hypergradient="first-order", **options).step(*make_batches())
        for k in range(2):
            assert oracle.relative(report.learners[k].terms["direct"], expected[k]["direct"]) < 1e-12, name


def test_without_the_label_path_the_joint_form_has_no_label_term() -> None:
    group = group_of(make_learners(2), hypergradient="exact", labels_from="w-joint", label_path=False)
    for terms in group.architecture_gradients(*make_batches(), parts=True):
        assert not any(bool(t.any()) for term in ("cross", "label") for t in terms[term].values())
    assert group.step(*make_batches()).skipped == 0


def test_a_frozen_labeler_is_a_finished_search_and_stays_as_it_is() -> None:
    (finished,) = make_learners(1, seed=7)
    labeler = finished.frozen()
    u = make_batches()[1]
    before = labeler(u)
    assert torch.equal(before, finished.logits(finished.w, finished.architecture, u, "label"))
    learners = make_learners(2)
    group = group_of(learners, labels_from=[labeler, make_learners(2, seed=8)[1].frozen()], hypergradient="exact")
    for seed in range(3):
        report = group.step(*make_batches(seed=seed))
        group_of([finished]).step(*make_batches(seed=seed))
    assert torch.equal(labeler(u), before)
    expected = labeler(make_batches(seed=2)[1]).softmax(dim=1)
    labels = report.learners[0].soft_labels
    assert labels is not None
    assert torch.allclose(labels, expected)


def test_one_self_taught_learner_learns_from_its_own_labels() -> None:
    """Mass 1, as if it had one peer."""
    for mode in ("first-order", "finite-difference", "exact"):
        learner, twin, alone = (make_learners(1)[0] for _ in range(3))
        report = group_of([learner, twin], targets="own", hypergradient=mode).step(*make_batches())
        single = group_of([alone], targets="own", hypergradient=mode).step(*make_batches())
        for term, tensors in report.learners[0].terms.items():
            assert same_bits(tensors, single.learners[0].terms[term])
            assert all(bool(t.any()) for t in tensors.values()) == (term == "direct" or mode != "first-order")
        assert same_bits(state_of([alone]), state_of([learner]))


@pytest.mark.parametrize("targets", ["own", "uniform"])
def test_controls_keep_the_mass_of_the_peers(targets: Any) -> None:
    """With every peer a twin of the learner itself, self-taught and group are the same."""
    learners = [make_learners(1)[0] for _ in range(3)]
    twins = [make_learners(1)[0] for _ in range(3)]
    group = group_of(learners, hypergradient="first-order").step(*make_batches())
    control = group_of(twins, hypergradient="first-order", targets=targets).step(*make_batches())
    same = oracle.relative(learners[0].w, twins[0].w) < 1e-12
    assert same == (targets == "own")
    loss = control.learners[0].w_unlabeled_loss
    assert loss is not None
    assert loss > 2 * torch.tensor(4.0).log().item() - 1e-9 or targets == "own"
    assert group.learners[0].w_unlabeled_loss is not None


def test_deep_mutual_learning_is_ablation_1_with_fixed_architectures_on_the_labeled_images() -> None:
    """Against its own loss: cross-entropy plus the divergence from each peer's prediction, held constant."""

    def fixed(learner: Learner) -> Learner:
        architecture = learner.architecture

        def apply(weights: Any, _: Any, inputs: Tensor) -> Tensor:
            return learner.logits(weights, architecture, inputs, "w")

        return Learner(apply, {}, None, learner.w)

    learners = [fixed(a) for a in make_learners(3)]
    x, y = make_batches()[0]
    w = [{n: t.clone().requires_grad_() for n, t in a.w.items()} for a in learners]
    p = [a.logits(b, {}, x, "w").softmax(dim=1).detach() for a, b in zip(learners, w, strict=True)]
    expected = []
    for k, learner in enumerate(learners):
        log_q = learner.logits(w[k], {}, x, "w").log_softmax(dim=1)
        loss = torch.nn.functional.nll_loss(log_q, y)
        for j in range(3):
            if j != k:
                loss = loss + torch.nn.functional.kl_div(log_q, p[j], reduction="batchmean")
        gradient = torch.autograd.grad(loss, list(w[k].values()))
        expected.append({n: t.detach() - 0.3 * g for (n, t), g in zip(w[k].items(), gradient, strict=True)})
    group = group_of(learners, labels_from="w", hypergradient="first-order")
    report = group.step((x, y), x, None)
    for k, learner in enumerate(learners):
        assert oracle.relative(learner.w, expected[k]) < 1e-12
        assert report.learners[k].validation_loss is None


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
def test_a_learner_with_a_fixed_architecture_still_teaches(mode: str) -> None:
    """Its peer's gradient contains what the labels do to the fixed learner."""
    full = make_learners(2)
    architecture = full[1].architecture

    def apply(weights: Any, _: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        return full[1].logits(weights, architecture, inputs, phase)

    fixed = Learner(apply, {}, full[1].v, full[1].w)
    batches = make_batches()
    expected = group_of(full, hypergradient=mode).architecture_gradients(*batches, parts=True)
    found = group_of([full[0], fixed], hypergradient=mode).architecture_gradients(*batches, parts=True)
    for term in ALL:
        assert same_bits(found[0][term], expected[0][term])
        assert found[1][term] == {}
    report = group_of([full[0], fixed], hypergradient=mode).step(*batches)
    assert report.skipped == 0


def test_targets_are_the_sum_of_the_peers_and_never_contain_the_learner() -> None:
    tables = [torch.rand(2, 3, dtype=torch.float64) for _ in range(4)]
    teaching = Teaching(4, 1.0)
    for k in range(4):
        expected = torch.stack([t for j, t in enumerate(tables) if j != k]).sum(dim=0)
        assert torch.allclose(teaching.received(k, tables), expected, rtol=0, atol=1e-15)


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"labels_from": "nobody"}, 2, "labels_from must be one of v, w, w-joint or a list of frozen labelers"),
    ({"labels_from": [lambda u: u]}, 2, "one frozen labeler per learner, but got 1 for 2 learners"),
    ({"targets": "everyone"}, 2, "targets must be one of peers, own, uniform, but got 'everyone'"),
    ({"labels_from": "w-joint", "targets": "own"}, 2, 'needs targets="peers"'),
    ({"labels_from": "w", "targets": "uniform"}, 2, "uses no labeler"),
    ({"lam": "1"}, 2, "lam must be a number, but got str"),
    ({"labels_from": None}, 2, "list of frozen labelers .* but got NoneType"),
    ({"labels_from": iter([])}, 2, "but got list_iterator"),
    ({"labels_from": ["a", "b"]}, 2, "but got list"),
    ({"human_labels": False}, 1, "at least two learners must be given, but got 1"),
]


@pytest.mark.parametrize(("options", "count", "message"), REFUSED)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], count: int, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        SmallGroup(make_learners(count), **options)


def test_a_frozen_labeler_must_return_a_row_per_input() -> None:
    learners = make_learners(2)
    group = group_of(learners, labels_from=[lambda _: torch.zeros(3, 4), lambda _: torch.zeros(3, 4)])
    before = state_of(learners)
    with pytest.raises(ValueError, match="the frozen labeler of learner 0 must return one row of class scores"):
        group.step(*make_batches())
    assert same_bits(before, state_of(learners))


def test_learners_of_different_precision_teach_one_another() -> None:
    """A float32 learner between two of float64: each gets its peers' tables in its own precision."""
    dtypes = (torch.float64, torch.float32, torch.float64)

    def mixed() -> list[Learner]:
        learners = []
        for k, dtype in enumerate(dtypes):
            one = make_learners(3, dtype)[k]

            def apply(weights: Any, a: Any, x: Tensor, *, one: Learner = one, dtype: torch.dtype = dtype) -> Tensor:
                return one.logits(weights, a, x.to(dtype), "w")

            learners.append(Learner(apply, one.architecture, one.v, one.w))
        return learners

    for name in ("full", "without first stage, joint"):
        expected = group_of(make_learners(3), hypergradient="exact", **SETTINGS[name][0])
        found = group_of(mixed(), hypergradient="exact", **SETTINGS[name][0]).architecture_gradients(*make_batches())
        for k, terms in enumerate(expected.architecture_gradients(*make_batches())):
            assert {t.dtype for t in found[k].values()} == {dtypes[k]}
            assert oracle.relative(found[k], terms) < 1e-5


def test_lambda_may_be_set_between_steps() -> None:
    """Gradients are then those of a group that was made with it."""
    batches = make_batches(torch.float64)
    changed, made = group_of(make_learners(2), lam=0.5), group_of(make_learners(2), lam=2.0)
    changed.lam = 2.0
    assert changed.lam == 2.0
    for one, other in zip(changed.architecture_gradients(*batches), made.architecture_gradients(*batches), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in other)


@pytest.mark.parametrize(("before", "after"), [(0.5, 0.0), (0.0, 0.5)])
def test_lambda_does_not_turn_teaching_on_or_off(before: float, after: float) -> None:
    group = group_of(make_learners(2), lam=before)
    with pytest.raises(
        ValueError, match=f"lam may not be set to or from 0, but it is {before:g} and would become {after:g}"
    ):
        group.lam = after


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": 0}, "0 < temperature < infinity must hold, but got temperature=0"),
        ({"temperature": "hot"}, "temperature must be a number, but got str"),
        ({"confidence": 1.0}, "0 <= confidence < 1 must hold, but got confidence=1.0"),
        ({"label_smoothing": 1.0}, "0 <= label_smoothing < 1 must hold, but got label_smoothing=1.0"),
    ],
)
def test_labels_of_no_kind_are_refused(options: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        Classification(**options)


def test_rows_that_are_not_confident_are_not_learned_from() -> None:
    """By hand: the first row is above the limit at temperature 1, the second is not; sharpening is no confidence."""
    log_p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]], dtype=torch.float64).log()
    handed = Classification(temperature=0.5, confidence=0.6).hand_over(log_p, log_p)
    expected = torch.tensor([[0.49, 0.04, 0.01], [0.0, 0.0, 0.0]], dtype=torch.float64) / torch.tensor([[0.54], [1.0]])
    torch.testing.assert_close(handed, expected)


@pytest.mark.parametrize("share", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_smoothed_labels_are_torchs(share: float, dtype: torch.dtype) -> None:
    """To the bit: a network in a group with lambda 0 is trained as one alone. Labels of peers are not smoothed."""
    logits = torch.randn(7, 5, generator=stream("smoothing"), dtype=dtype).requires_grad_()
    labels, task = torch.tensor([0, 1, 2, 3, 4, 0, 1]), Classification(label_smoothing=share)
    losses = task.loss(task.normalized(logits), labels), functional.cross_entropy(logits, labels, label_smoothing=share)
    assert torch.equal(*losses)
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in losses]
    torch.testing.assert_close(*gradients, rtol=0, atol=0)
    assert torch.equal(
        task.hand_over(task.normalized(logits), None), Classification().hand_over(task.normalized(logits), None)
    )
