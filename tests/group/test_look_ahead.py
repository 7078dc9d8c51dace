"""Architectures first, through a look-ahead step of W that is taken back: the order of DARTS (2nd)."""

from typing import Any

import pytest
import torch
from torch.optim import SGD

from smallgroup.group import Learner, NonFiniteError, Optimizers, SmallGroup
from tests.group import oracle
from tests.group.checks import XI, group_of, term_errors
from tests.group.networks import make_batches, make_learners, same_bits, state_of

MOMENTUM, DECAY, CLIP = 0.9, 0.1, 0.2
"""The gradients of these networks are about ten times as long as CLIP."""


def published(learners: list[Learner], group: SmallGroup, *, nesterov: bool = False, clip: bool = False) -> Any:
    """theta - eta (momentum * buffer + gradient + decay * theta), as the DARTS authors' code looks ahead.

    With Nesterov's momentum, gradient and decay count once more beside the new buffer.
    """

    def step(k: int, weights: oracle.Tensors, gradient: oracle.Tensors) -> oracle.Tensors:
        size = torch.cat([g.detach().flatten() for g in gradient.values()]).norm()
        factor = min(1.0, CLIP / (float(size) + 1e-6)) if clip else 1.0
        optimizer = group.optimizers[k].w
        assert optimizer is not None
        result = {}
        for name, theta in weights.items():
            buffer = optimizer.state.get(learners[k].w[name], {}).get("momentum_buffer")
            d = factor * gradient[name] + DECAY * theta.detach()
            moment = d if buffer is None else MOMENTUM * buffer.clone() + d
            result[name] = theta.detach() - XI * (d + MOMENTUM * moment if nesterov else moment)
        return result

    return step


def learner_alone(mode: str, *, nesterov: bool = False, dtype: torch.dtype = torch.float64) -> SmallGroup:
    """After a step, so that there is a momentum to look ahead with."""
    learners = make_learners(1, dtype)
    w = SGD(list(learners[0].w.values()), lr=XI, momentum=MOMENTUM, weight_decay=DECAY, nesterov=nesterov)
    group = group_of(learners, hypergradient=mode, optimizers=[Optimizers(w=w, w_clip=CLIP)], architecture_lr=0.5)
    x, u, x_v = make_batches(dtype, seed=0)
    group.step(x, u, x_v)
    return group


def state_with_moments(group: SmallGroup) -> dict[str, torch.Tensor]:
    optimizer = group.optimizers[0].w
    assert optimizer is not None
    moments = {f"moment {i}": v["momentum_buffer"].clone() for i, v in enumerate(optimizer.state.values())}
    return state_of(group.learners) | moments


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
def test_each_term_is_that_of_the_unrolled_look_ahead(nesterov: bool, clip: bool) -> None:
    """By reverse mode through the look-ahead written out, and of the sum by differences of nothing but its value."""
    group = learner_alone("exact", nesterov=nesterov)
    batches = make_batches(seed=1)
    options: dict[str, Any] = {"lam": 1.0, "step_v": oracle.plain(XI)}
    options["step_w"] = published(group.learners, group, nesterov=nesterov, clip=clip)
    expected = oracle.term_gradients(group.learners, batches, **options)
    whole = oracle.central_differences(group.learners, batches, ("own", "direct"), **options) if not clip else None
    report = group.step_architectures(batches[2], look_ahead=batches[0], clip_look_ahead=clip)
    errors = term_errors([learner.terms for learner in report.learners], expected)
    assert errors.keys() == {(0, "direct"), (0, "own")}
    assert max(errors.values()) < 1e-10, errors
    if whole is not None:  # a clipping factor is held constant, which differences of values cannot do
        assert oracle.relative(report.learners[0].gradient, whole[0]) < 1e-7


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-3), (torch.float32, 1e-2)])
def test_finite_differences_look_ahead_as_far(dtype: torch.dtype, tolerance: float) -> None:
    exact, probed = learner_alone("exact"), learner_alone("finite-difference", dtype=dtype)
    reports = []
    for group, kind in ((exact, torch.float64), (probed, dtype)):
        batches = make_batches(kind, seed=1)
        reports.append(group.step_architectures(batches[2], look_ahead=batches[0], clip_look_ahead=False).learners[0])
    for term in ("direct", "own"):
        assert oracle.relative(reports[1].terms[term], reports[0].terms[term]) < tolerance


def test_a_clipped_look_ahead_is_another() -> None:
    """Else the two cases above would show nothing."""
    batches, found = make_batches(seed=1), []
    for clip in (False, True):
        group = learner_alone("exact")
        found.append(group.step_architectures(batches[2], look_ahead=batches[0], clip_look_ahead=clip).learners[0])
    assert oracle.relative(found[1].gradient, found[0].gradient) > 0.05


def test_only_the_architecture_moves_and_then_the_weights_as_ever() -> None:
    group = learner_alone("finite-difference")
    train, _, validation = make_batches(seed=1)
    before = state_with_moments(group)
    report = group.step_architectures(validation, look_ahead=train, clip_look_ahead=False)
    after = state_with_moments(group)
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"0/a/alpha"}
    gradient = report.learners[0].gradient["alpha"]
    torch.testing.assert_close(after["0/a/alpha"], before["0/a/alpha"] - 0.5 * gradient)
    assert group.steps == 1
    other = learner_alone("finite-difference")
    other.learners[0].architecture["alpha"].copy_(after["0/a/alpha"])
    for each in (group, other):  # clipped, on the same batch, at the new architecture
        each.step(train, None, None)
    assert same_bits(state_with_moments(group), state_with_moments(other))


def test_a_look_ahead_that_fails_changes_nothing() -> None:
    group = learner_alone("finite-difference")
    train, _, (x, y) = make_batches(seed=1)
    before = state_with_moments(group)
    with pytest.raises(NonFiniteError, match="learner 0"):
        group.step_architectures((x * float("inf"), y), look_ahead=train)
    assert same_bits(before, state_with_moments(group))


def test_learners_that_teach_do_not_look_ahead_before_their_step() -> None:
    train, _, validation = make_batches()
    with pytest.raises(ValueError, match="look ahead before V and W only if no learner teaches"):
        group_of(make_learners(2)).step_architectures(validation, look_ahead=train)


def test_independent_learners_look_ahead_each_for_itself() -> None:
    train, _, validation = make_batches()
    together = group_of(make_learners(2), lam=0).step_architectures(validation, look_ahead=train)
    for k, learner in enumerate(make_learners(2)):
        alone = group_of([learner]).step_architectures(validation, look_ahead=train)
        assert same_bits(together.learners[k].gradient, alone.learners[0].gradient)
