"""Every task: losses and directions that cannot be used, and what holds of a group whatever its task is."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.group import (
    Learner,
    NonFiniteError,
    SmallGroup,
)
from tests.group import oracle
from tests.group.checks import check_changes_nothing
from tests.group.networks import same_bits, state_of
from tests.group.tasks.cases import CASES
from tests.group.tasks.test_tasks import NEW, SMALL, group_for
from tests.group.test_cost import TOTALS, Counted
from tests.group.test_failure import explode, spoil

MODES = ["first-order", "finite-difference", "exact"]
KINDS = ["multi-label", "gaussian", "tokens"]
"""One loss whose slope is the same for all teachers, one whose slope is not, one whose tables are added up."""


def batches_of(name: str, seed: int = 5, dtype: torch.dtype = torch.float64) -> Any:
    return CASES[name].batches(dtype, seed)


# Failure.


@pytest.mark.parametrize(("phase", "stage"), [("v", 1), ("label", 2), ("w", 2), ("w_unlabeled", 2), ("val", 3)])
@pytest.mark.parametrize("name", NEW)
def test_a_loss_that_is_not_finite_raises_before_anything_is_changed(name: str, phase: str, stage: int) -> None:
    group = group_for(name, 3)
    spoil(group.learners[2], phase)
    before = state_of(group.learners)
    with pytest.raises(NonFiniteError, match=f"of learner 2 is not finite in stage {stage} of step 0"):
        group.step(*batches_of(name))
    assert same_bits(before, state_of(group.learners))
    assert group.steps == 0


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
@pytest.mark.parametrize("name", KINDS)
def test_terms_that_cannot_be_had_are_skipped_and_counted(name: str, mode: str) -> None:
    group = group_for(name, 3, hypergradient=mode)
    explode(group.learners[0])
    report = group.step(*batches_of(name))
    assert report.learners[0].skipped == {"own": "the direction is not finite"}
    reasons = dict.fromkeys(("cross", "label"), "the sensitivity of learner 0 is not known")
    assert [report.learners[k].skipped for k in (1, 2)] == [reasons, reasons]
    assert all(bool(t.isfinite().all()) for one in report.learners for t in one.gradient.values())


@pytest.mark.parametrize("options", [{}, {"labels_from": "w-joint"}, {"targets": "own"}])
@pytest.mark.parametrize("name", KINDS)
def test_a_direction_of_zero_is_a_sensitivity_of_zero(name: str, options: dict[str, Any]) -> None:
    """Validation inputs do not reach the W of learner 0: what its peers teach it then changes nothing."""
    group = group_for(name, 2, hypergradient="exact", **options)
    original = group.learners[0].apply

    def apply(weights: Any, architecture: Any, inputs: Any, *, phase: Any = None) -> Tensor:
        if phase == "val":
            weights = {n: t.detach() for n, t in weights.items()}
        result: Tensor = original(weights, architecture, inputs, phase=phase)
        return result

    group.learners[0].apply = apply
    report = group.step(*batches_of(name))
    assert report.learners[0].skipped["own"] == "the direction is zero"
    pupil_of = 0 if options.get("targets") == "own" else 1
    assert report.learners[pupil_of].norms["label"] == 0.0
    assert "label" not in report.learners[pupil_of].skipped  # it is known, and zero
    assert report.learners[1 - pupil_of].norms["label"] > 0


# What holds whatever the task is.


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KINDS)
def test_passes_do_not_grow_with_the_number_of_teachers(name: str, mode: str) -> None:
    for count in (2, 3):
        group = group_for(name, count, hypergradient=mode)
        counters = [Counted(learner) for learner in group.learners]
        group.step(*batches_of(name))
        for counter in counters:
            assert (counter.forward.total(), counter.backward.total()) == TOTALS[mode, True]


@pytest.mark.parametrize("name", KINDS)
def test_terms_through_labels_ask_the_teacher_alone(name: str) -> None:
    """Of its pupils a learner sees a table alone: for its cross and label terms nobody's network runs but its own."""
    group, calls = group_for(name, 3, hypergradient="exact"), []
    for k, learner in enumerate(group.learners):
        inner = learner.apply

        def apply(w: Any, a: Any, x: Any, *, phase: Any = None, inner: Any = inner, k: int = k) -> Tensor:
            calls.append((k, phase))
            result: Tensor = inner(w, a, x, phase=phase)
            return result

        learner.apply = apply
    group.step(*batches_of(name))
    assert calls[-6:] == [(k, phase) for k in range(3) for phase in ("label", "v")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KINDS)
def test_step_applies_the_gradient_that_is_computed_and_computing_it_changes_nothing(name: str, mode: str) -> None:
    group = group_for(name, 3, hypergradient=mode)
    check_changes_nothing(group, batches_of(name))
    expected = group.architecture_gradients(*batches_of(name))
    report = group.step(*batches_of(name))
    assert all(same_bits(one.gradient, expected[k]) for k, one in enumerate(report.learners))


@pytest.mark.parametrize("name", KINDS)
def test_an_independent_learner_equals_a_learner_alone_bit_for_bit(name: str) -> None:
    options: dict[str, Any] = {"lam": 0.0, "radius": SMALL}
    together, alone = group_for(name, 2, **options), [group_for(name, k + 1, **options) for k in range(2)]
    report = together.step(*batches_of(name))
    for k, group in enumerate(alone):
        one = SmallGroup([group.learners[k]], task=CASES[name].task(), v_lr=0.3, w_lr=0.3, radius=SMALL)
        assert same_bits(one.step(*batches_of(name)).learners[0].gradient, report.learners[k].gradient)
        assert same_bits(group.learners[k].w, together.learners[k].w)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KINDS)
def test_permuting_the_learners_permutes_the_result(name: str, mode: str) -> None:
    order, case = [2, 0, 1], CASES[name]
    found = group_for(name, 3, hypergradient=mode, radius=SMALL).architecture_gradients(*batches_of(name))
    learners = case.learners(3, torch.float64)
    options = {"v_lr": 0.3, "w_lr": 0.3, "radius": SMALL, "hypergradient": mode}
    permuted = SmallGroup([learners[k] for k in order], task=case.task(), **options)  # type: ignore[arg-type]
    other = permuted.architecture_gradients(*batches_of(name))
    for position, k in enumerate(order):
        assert oracle.relative(other[position], found[k]) < 1e-9


@pytest.mark.parametrize("name", KINDS)
def test_thirty_steps_lower_every_training_loss(name: str) -> None:
    case = CASES[name]
    group = SmallGroup(case.learners(3, torch.float64), task=case.task(), v_lr=0.1, w_lr=0.1, architecture_lr=0.05)
    first = group.step(*batches_of(name))
    for _ in range(30):
        last = group.step(*batches_of(name))
    for before, after in zip(first.learners, last.learners, strict=True):
        assert after.v_loss < before.v_loss  # type: ignore[operator]
        assert after.w_loss < before.w_loss  # type: ignore[operator]


@pytest.mark.parametrize("name", ["gaussian", "tokens"])
def test_learners_of_different_precision_teach_one_another(name: str) -> None:
    dtypes = (torch.float64, torch.float32, torch.float64)
    case = CASES[name]

    def mixed() -> list[Learner]:
        learners = []
        for k, dtype in enumerate(dtypes):
            one = case.learners(3, dtype)[k]

            def apply(weights: Any, a: Any, x: Any, *, one: Learner = one, dtype: torch.dtype = dtype) -> Tensor:
                return one.outputs(weights, a, x.to(dtype) if isinstance(x, Tensor) else x, "w")

            learners.append(Learner(apply, one.architecture, one.v, one.w))
        return learners

    settings: list[dict[str, Any]] = [{}, {"labels_from": "w-joint"}]
    for options in settings:
        expected = group_for(name, 3, hypergradient="exact", **options).architecture_gradients(*batches_of(name))
        group = SmallGroup(mixed(), task=case.task(), v_lr=0.3, w_lr=0.3, hypergradient="exact", **options)
        for k, found in enumerate(group.architecture_gradients(*batches_of(name))):
            assert {t.dtype for t in found.values()} == {dtypes[k]}
            assert oracle.relative(found, expected[k]) < 1e-4


def test_what_is_handed_over_is_reported() -> None:
    report = group_for("gaussian", 2).step(*batches_of("gaussian"))
    for one in report.learners:
        assert one.soft_labels is not None
        assert one.soft_labels.shape == (7, 2, 2)
        assert bool((one.soft_labels[:, 1] > 0).all())


def test_a_fixed_architecture_learns_and_teaches_in_every_task() -> None:
    counts: Counter[str] = Counter()
    for name in KINDS:
        learners = CASES[name].learners(2, torch.float64)
        full = learners[1]
        counts.clear()

        def apply(weights: Any, _: Any, inputs: Any, *, phase: Any = None, full: Learner = full) -> Tensor:
            counts[phase] += 1
            return full.outputs(weights, full.architecture, inputs, phase)

        group = SmallGroup([learners[0], Learner(apply, {}, full.v, full.w)], task=CASES[name].task())
        report = group.step(*batches_of(name))
        assert report.skipped == 0
        assert report.learners[0].norms["label"] > 0
        assert counts["val"] == 1
