"""Architectures first in one step of the group: the order of DARTS and of the published code."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import Adam

from smallgroup.group import Optimizers, SmallGroup, snapshot
from tests.group.checks import group_of
from tests.group.networks import make_batches, make_learners, same_bits, state_of


def group_with_adam(mode: str, **options: Any) -> SmallGroup:
    learners = make_learners(2)
    own = [
        Optimizers(w=Adam(list(a.w.values()), lr=0.01), architecture=Adam(list(a.architecture.values())), w_clip=0.1)
        for a in learners
    ]
    return group_of(learners, hypergradient=mode, optimizers=own, **options)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize(("mode", "lam"), [("first-order", 1.0), ("finite-difference", 0.0), ("exact", 0.0)])
def test_one_step_is_the_step_of_a_and_then_that_of_v_and_w(mode: str, lam: float, clip: bool) -> None:
    whole, parts = (group_with_adam(mode, lam=lam) for _ in range(2))
    for seed in range(3):
        train, u, validation = make_batches(seed=seed)
        report = whole.step(train, u, validation, order="a-v-w", clip_look_ahead=clip)
        look_ahead = None if mode == "first-order" else train
        first = parts.step_architectures(validation, look_ahead=look_ahead, clip_look_ahead=clip)
        second = parts.step(train, u, None)
        assert same_bits(state_of(whole.learners), state_of(parts.learners))
        assert report.step == second.step == seed
        for one, of_a, of_w in zip(report.learners, first.learners, second.learners, strict=True):
            assert (one.validation_loss, one.w_loss) == (of_a.validation_loss, of_w.w_loss)
            assert same_bits(one.gradient, of_a.gradient)
        assert set(report.seconds) == ({1, 2, 3} if lam else {2, 3})


def test_it_is_another_step_than_the_papers() -> None:
    found = []
    for order in ("v-w-a", "a-v-w"):
        learners = make_learners(2)
        group_of(learners, hypergradient="first-order", architecture_lr=0.5).step(*make_batches(), order=order)
        found.append(state_of(learners))
    changed = {name.split("/")[1] for name in found[0] if not torch.equal(found[0][name], found[1][name])}
    assert changed == {"a", "v", "w"}  # V and W were stepped at the new A


@pytest.mark.parametrize(("phase", "mode"), [("w", "first-order"), ("w", "exact"), ("val", "exact")])
def test_a_step_that_fails_in_any_part_changes_nothing(phase: str, mode: str) -> None:
    """Of the second learner, on the second look at its W: the architectures have moved when it fails."""
    group = group_with_adam(mode, lam=0.0)
    group.step(*make_batches(), order="a-v-w")
    original, calls = group.learners[1].apply, []

    def apply(weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None, spoiled: str = phase) -> Tensor:
        calls.append(phase)
        logits: Tensor = original(weights, architecture, inputs, phase=phase)
        last = calls.count(spoiled) == (1 if spoiled == "val" or mode == "first-order" else 3)
        return logits * float("nan") if phase == spoiled and last else logits

    group.learners[1].apply = apply
    moments = [state["exp_avg"] for own in group.optimizers if own.w for state in own.w.state.values()]
    before, kept = state_of(group.learners), [moment.clone() for moment in moments]
    with pytest.raises(FloatingPointError, match="learner 1"):
        group.step(*make_batches(seed=1), order="a-v-w")
    assert same_bits(before, state_of(group.learners))
    assert all(torch.equal(a, b) for a, b in zip(moments, kept, strict=True))
    assert group.steps == 1
    assert calls.count("val") == 1


def test_either_order_takes_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    original = snapshot.Snapshot.take_again

    def counted(self: snapshot.Snapshot) -> None:
        taken.append(1)
        original(self)

    group = group_with_adam("exact", lam=0.0)
    group.step(*make_batches())
    monkeypatch.setattr(snapshot.Snapshot, "take_again", counted)
    for order in ("v-w-a", "a-v-w"):
        taken.clear()
        group.step(*make_batches(), order=order)
        assert taken == [1]


def test_without_validation_the_order_is_of_no_importance() -> None:
    one, two = make_learners(2), make_learners(2)
    train, u, _ = make_batches()
    group_of(one).step(train, u, None)
    group_of(two).step(train, u, None, order="a-v-w")
    assert same_bits(state_of(one), state_of(two))


def test_orders_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="order must be one of v-w-a, a-v-w, but got 'w-v-a'"):
        group_of(make_learners(1)).step(*make_batches(), order="w-v-a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='clip_look_ahead can be False only with order="a-v-w"'):
        group_of(make_learners(1)).step(*make_batches(), clip_look_ahead=False)
    with pytest.raises(ValueError, match="look ahead before V and W only if no learner teaches"):
        group_of(make_learners(2)).step(*make_batches(), order="a-v-w")
