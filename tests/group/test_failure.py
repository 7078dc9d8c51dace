"""A step either happens or does not: losses, gradients and directions that cannot be used."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam

from smallgroup.group import Learner, NonFiniteError, Optimizers, SmallGroup
from smallgroup.group.hypergradients import Product
from tests.group.checks import group_of
from tests.group.networks import make_batches, make_learners, same_bits, state_of

MODES = ["first-order", "finite-difference", "exact"]


def optimizer_state(group: SmallGroup) -> dict[str, Tensor]:
    return {
        f"{k}/{role}/{i}/{n}": torch.as_tensor(value).clone()
        for k, own in enumerate(group.optimizers)
        for role in ("v", "w", "architecture")
        for i, values in enumerate(getattr(own, role).state.values())
        for n, value in values.items()
    }


def spoil(learner: Learner, phase: str) -> None:
    """Make one pass of a learner infinite."""
    original = learner.apply

    def apply(weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None, spoiled: str = phase) -> Tensor:
        logits: Tensor = original(weights, architecture, inputs, phase=phase)
        return torch.full_like(logits, float("nan")) * logits if phase == spoiled else logits

    learner.apply = apply


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(("phase", "stage"), [("v", 1), ("label", 2), ("w", 2), ("w_unlabeled", 2), ("val", 3)])
def test_a_loss_that_is_not_finite_raises_before_anything_is_changed(
    mode: str, phase: str, stage: int, warm: bool
) -> None:
    """In the last learner, so that the others have already moved; with empty and with filled optimizer buffers."""
    learners = make_learners(3)
    optimizers = [
        Optimizers(
            v=SGD(list((a.v or {}).values()), lr=0.1, momentum=0.9),
            w=Adam(list(a.w.values())),
            architecture=Adam(list(a.architecture.values())),
        )
        for a in learners
    ]
    group = SmallGroup(learners, hypergradient=mode, optimizers=optimizers)  # type: ignore[arg-type]
    if warm:
        group.step(*make_batches(seed=1))
    spoil(learners[2], phase)
    before = state_of(learners) | optimizer_state(group)
    with pytest.raises(NonFiniteError, match=rf"of learner 2 is not finite in stage {stage} of step {int(warm)}") as e:
        group.step(*make_batches(seed=2))
    assert (e.value.learner, e.value.stage, e.value.step) == (2, stage, int(warm))
    assert same_bits(before, state_of(learners) | optimizer_state(group))
    assert group.steps == int(warm)


def test_a_gradient_that_is_not_finite_raises_too() -> None:
    def root(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
        zero: Tensor = (weights["w"] - weights["w"].detach()).sqrt()
        result: Tensor = inputs.flatten(1)[:, :4] * architecture["a"] + zero
        return result

    learner = Learner(root, {"a": torch.ones(4).double()}, None, {"w": torch.ones(4).double()})
    with pytest.raises(NonFiniteError, match="the gradient of pass 'w' of learner 0 is not finite in stage 2"):
        SmallGroup([learner]).step(*make_batches())
    assert torch.equal(learner.w["w"], torch.ones(4).double())


def test_an_architecture_gradient_that_is_not_finite_raises() -> None:
    def root(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
        zero: Tensor = (architecture["a"] - architecture["a"].detach()).sqrt()
        result: Tensor = inputs.flatten(1)[:, :4] * weights["w"] + zero
        return result

    learner = Learner(root, {"a": torch.ones(4).double()}, None, {"w": torch.ones(4).double()})
    with pytest.raises(NonFiniteError, match="the gradient of pass 'val' of learner 0 is not finite in stage 3"):
        SmallGroup([learner]).step(*make_batches())
    assert torch.equal(learner.w["w"], torch.ones(4).double())


def test_a_term_that_is_not_finite_is_skipped() -> None:
    learners = make_learners(2)
    group = group_of(learners, hypergradient="exact")
    right = group.setting.product

    def infinite(objectives: Any, point: Any, direction: Any, architecture: Any) -> Product:
        assert right is not None
        found = right(objectives, point, direction, architecture)
        return Product({n: t / 0 for n, t in found.architecture.items()}, found.tables)

    group.setting = replace(group.setting, product=infinite)
    report = group.step(*make_batches())
    for learner in report.learners:
        assert learner.skipped["own"] == "the term is not finite"
        assert all(bool(t.isfinite().all()) for t in learner.gradient.values())


def test_a_failing_optimizer_leaves_nothing_changed() -> None:
    """The architecture step of the last learner fails, when everything else has moved; settings move too."""

    class Failing(Adam):
        def step(self, closure: Any = None) -> Any:
            self.param_groups[0]["seen"] = self.param_groups[0].get("seen", 0) + 1
            super().step(closure)
            raise RuntimeError("no")

    learners = make_learners(3)
    makers = [Adam, Adam, Failing]
    optimizers = [
        Optimizers(architecture=make(list(a.architecture.values()))) for make, a in zip(makers, learners, strict=True)
    ]
    optimizers[2].architecture.param_groups[0]["seen"] = 0  # type: ignore[union-attr]
    group = SmallGroup(learners, optimizers=optimizers)
    before = state_of(learners) | optimizer_state(group)
    with pytest.raises(RuntimeError, match="no"):
        group.step(*make_batches())
    assert same_bits(before, state_of(learners) | optimizer_state(group))
    assert optimizers[2].architecture.param_groups[0]["seen"] == 0  # type: ignore[union-attr]
    tensors = [t for a in learners for t in (*a.architecture.values(), *(a.v or {}).values(), *a.w.values())]
    assert all(t.grad is None for t in tensors)


def test_an_interrupted_step_changes_nothing() -> None:
    learners = make_learners(2)

    def interrupt(*_: Any, **__: Any) -> Tensor:
        raise KeyboardInterrupt

    before = state_of(learners)
    group = group_of(learners)
    learners[1].apply = interrupt
    with pytest.raises(KeyboardInterrupt):
        group.step(*make_batches())
    assert same_bits(before, state_of(learners))


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
def test_a_vanishing_direction_is_skipped_counted_and_reported(mode: str) -> None:
    """Validation images of learner 0 do not reach its W: its own term and what its peer gets from it are gone."""
    learners = make_learners(2)
    original = learners[0].apply

    def apply(weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        if phase == "val":
            weights = {n: t.detach() for n, t in weights.items()}
        result: Tensor = original(weights, architecture, inputs, phase=phase)
        return result

    learners[0].apply = apply
    report = group_of(learners, hypergradient=mode).step(*make_batches())
    assert report.learners[0].skipped == {"own": "the direction is zero"}
    assert report.learners[1].skipped == {"cross": "the direction is zero"}
    assert report.learners[1].norms["label"] == 0.0
    assert report.skipped == 2
    assert report.step == 0
    norms = report.learners[0].norms
    assert norms["own"] == 0.0
    assert norms["direct"] > 0
    assert norms["cross"] > 0
    assert norms["label"] > 0
    assert report.learners[1].norms["own"] > 0
    assert all(bool(t.isfinite().all()) for a in report.learners for t in a.gradient.values())


class Exploding(torch.autograd.Function):
    """The value is right, the gradient infinite."""

    @staticmethod
    def forward(value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ARG004
        return gradient * float("inf")


def explode(learner: Learner) -> None:
    """Give a learner a finite validation loss whose gradient in W is infinite."""
    original = learner.apply

    def apply(weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        if phase == "val":
            weights = {n: Exploding.apply(t) for n, t in weights.items()}  # type: ignore[no-untyped-call]
        result: Tensor = original(weights, architecture, inputs, phase=phase)
        return result

    learner.apply = apply


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
def test_a_self_taught_learner_that_does_not_know_its_sensitivity_skips_its_own_terms(mode: str) -> None:
    learners = make_learners(2)
    explode(learners[0])
    report = group_of(learners, hypergradient=mode, targets="own").step(*make_batches())
    assert set(report.learners[0].skipped) == {"own", "cross", "label"}
    assert report.learners[1].skipped == {}


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
def test_a_direction_that_is_not_finite_is_skipped_counted_and_reported(mode: str) -> None:
    learners = make_learners(3)
    explode(learners[0])
    report = group_of(learners, hypergradient=mode).step(*make_batches())
    assert report.learners[0].skipped == {"own": "the direction is not finite"}
    # Both peers teach learner 0, and neither knows what that does: no half of a sum is passed off as the whole.
    for k in (1, 2):
        reasons = dict.fromkeys(("cross", "label"), "the sensitivity of learner 0 is not known")
        assert report.learners[k].skipped == reasons
        assert report.learners[k].norms["label"] == 0.0
        assert report.learners[k].norms["own"] > 0
    assert report.skipped == 5
    assert report.learners[0].norms["label"] > 0
    assert all(bool(t.isfinite().all()) for a in report.learners for t in a.gradient.values())


def test_a_failed_step_leaves_the_learning_rate_that_was_set_before_it() -> None:
    """Schedules change it between steps; what an earlier step began with must not come back."""
    learners = make_learners(2)
    group = SmallGroup(learners, hypergradient="first-order")
    group.step(*make_batches(seed=1))
    for own in group.optimizers:
        assert own.w is not None
        own.w.param_groups[0]["lr"] = 0.123
    spoil(learners[1], "val")
    with pytest.raises(NonFiniteError):
        group.step(*make_batches(seed=2))
    assert [own.w.param_groups[0]["lr"] for own in group.optimizers if own.w is not None] == [0.123, 0.123]
