"""What an `apply` may have beyond the call: a penalty, several samples, a look at the loss, a correction."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from smallgroup.group import Learner, NonFiniteError, SmallGroup
from tests.group.checks import TOLERANCE, XI, expected_terms, group_of, term_errors
from tests.group.networks import make_batches, make_learners, same_bits, state_of
from tests.group.oracle import Tensors, relative

MODES = ["first-order", "finite-difference", "exact"]


class Wrapped:
    """An apply with one more hook."""

    def __init__(self, learner: Learner, **hooks: Callable[..., Any]) -> None:
        self.apply = learner.apply
        self.__dict__.update(hooks)

    def __call__(self, weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        return self.apply(weights, architecture, inputs, phase=phase)


def rewrap(learner: Learner, apply: Any) -> Learner:
    return Learner(apply, learner.architecture, learner.v, learner.w)


def squares(architecture: Any) -> Tensor:
    return torch.stack([(3 * t.tanh() ** 2).mean() for t in architecture.values()]).sum()


@pytest.mark.parametrize("mode", MODES)
def test_a_penalty_is_part_of_the_direct_term_and_of_nothing_else(mode: Any) -> None:
    expected = expected_terms(make_learners(2))
    learners = [rewrap(learner, Wrapped(learner, penalty=squares)) for learner in make_learners(2)]
    for k, learner in enumerate(learners):
        leaves = {n: t.clone().requires_grad_() for n, t in learner.architecture.items()}
        squares(leaves).backward()  # type: ignore[no-untyped-call]
        for name, leaf in leaves.items():
            assert leaf.grad is not None
            expected[k]["direct"][name] = expected[k]["direct"][name] + leaf.grad
    if mode == "first-order":
        expected = [{"direct": terms["direct"]} for terms in expected]
    found = group_of(learners, hypergradient=mode).architecture_gradients(*make_batches(), parts=True)
    errors = term_errors(found, expected)
    assert max(errors.values()) < TOLERANCE[torch.float64]
    assert all(error < 1e-10 for (_, term), error in errors.items() if term == "direct")


def test_a_penalty_moves_no_weight_and_no_reported_loss() -> None:
    plain, penalized = make_learners(2), [rewrap(a, Wrapped(a, penalty=squares)) for a in make_learners(2)]
    reports = [group_of(learners).step(*make_batches()) for learners in (plain, penalized)]
    for k in range(2):
        assert reports[0].learners[k].validation_loss == reports[1].learners[k].validation_loss
        assert same_bits(plain[k].v or {}, penalized[k].v or {})
        assert same_bits(plain[k].w, penalized[k].w)
        assert any(not torch.equal(plain[k].architecture[n], t) for n, t in penalized[k].architecture.items())


def test_a_penalty_that_is_not_finite_stops_the_step() -> None:
    learners = make_learners(2)
    learners[1] = rewrap(learners[1], Wrapped(learners[1], penalty=lambda a: squares(a) * float("inf")))
    before = state_of(learners)
    with pytest.raises(NonFiniteError, match="penalty of learner 1"):
        group_of(learners).step(*make_batches())
    assert same_bits(before, state_of(learners))


@pytest.mark.parametrize("value", [3.0, torch.ones(2), torch.tensor(1.0)])
def test_a_penalty_must_be_a_scalar_of_the_architecture(value: Any) -> None:
    (learner,) = make_learners(1)
    group = group_of([rewrap(learner, Wrapped(learner, penalty=lambda _: value))])
    with pytest.raises(TypeError, match="penalty must be a scalar tensor"):
        group.step(*make_batches())


SCALES = (0.8, 1.0, 1.3)


class Sampled(Wrapped):
    """Three samples: the inputs scaled in three ways."""

    def __call__(self, weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        return torch.stack([self.apply(weights, architecture, s * inputs, phase=phase) for s in SCALES])


def marginal(losses: Tensor, architecture: Any, size: int, phase: Any) -> Tensor:  # noqa: ARG001
    """-log of the mean likelihood, the samples' probabilities depending on the architecture."""
    first = next(iter(architecture.values())).flatten()[:3]
    shares = F.log_softmax(torch.cat([first, first.new_zeros(3)])[:3], dim=0)
    return -torch.logsumexp(shares - size * losses, dim=0) / size


def unrolled_samples(learners: list[Learner], roles: list[Tensors], combine: Callable[..., Tensor] | None) -> Tensor:
    """The sum of validation losses as a function of the architectures, by nothing but autograd."""
    (x, y), u, (x_v, y_v) = make_batches()

    def logits(k: int, weights: Tensors, inputs: Tensor) -> list[Tensor]:
        return [learners[k].apply.apply(weights, roles[k], s * inputs) for s in SCALES]  # type: ignore[union-attr]

    def one(k: int, losses: list[Tensor], size: int) -> Tensor:
        stacked = torch.stack(losses)
        return stacked.mean() if combine is None else combine(stacked, roles[k], size, None)

    def on_labels(k: int, weights: Tensors, inputs: Tensor, labels: Tensor) -> Tensor:
        return one(k, [F.cross_entropy(z, labels) for z in logits(k, weights, inputs)], len(inputs))

    def step(weights: Tensors, loss: Tensor) -> Tensors:
        gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        return {n: t - XI * g for (n, t), g in zip(weights.items(), gradients, strict=True)}

    def leaves(tensors: Any) -> Tensors:
        return {n: t.detach().requires_grad_() for n, t in tensors.items()}

    labels = []
    for k, learner in enumerate(learners):
        v = leaves(learner.v)
        v = step(v, on_labels(k, v, x, y))
        labels.append(torch.stack([z.softmax(dim=1) for z in logits(k, v, u)]).mean(dim=0))
    total = torch.zeros((), dtype=x.dtype)
    for k, learner in enumerate(learners):
        w = leaves(learner.w)
        target = labels[1 - k]
        soft = [-(target * z.log_softmax(dim=1)).sum(dim=1).mean() for z in logits(k, w, u)]
        w = step(w, on_labels(k, w, x, y) + one(k, soft, len(u)))
        total = total + on_labels(k, w, x_v, y_v)
    return total


@pytest.mark.parametrize("combine", [None, marginal])
@pytest.mark.parametrize("mode", ["exact", "finite-difference"])
def test_several_samples_follow_the_unrolled_problem(mode: Any, combine: Any) -> None:
    hooks = {} if combine is None else {"combine": combine}
    learners = [rewrap(learner, Sampled(learner, **hooks)) for learner in make_learners(2)]
    roles = [{n: t.clone().requires_grad_() for n, t in learner.architecture.items()} for learner in learners]
    unrolled_samples(learners, roles, combine).backward()  # type: ignore[no-untyped-call]
    found = group_of(learners, hypergradient=mode).architecture_gradients(*make_batches())
    for k, role in enumerate(roles):
        expected = {n: t.grad for n, t in role.items() if t.grad is not None}
        assert relative(found[k], expected) < (1e-9 if mode == "exact" else TOLERANCE[torch.float64])


def test_samples_have_no_joint_form() -> None:
    learners = [rewrap(learner, Sampled(learner)) for learner in make_learners(2)]
    with pytest.raises(ValueError, match="one sample"):
        group_of(learners, labels_from="w-joint").step(*make_batches())


def test_a_learner_sees_each_training_loss_once_where_it_stands() -> None:
    learners = make_learners(2)
    seen: list[tuple[str, float]] = []

    def look(phase: str, architecture: Any, loss: Callable[[], Tensor]) -> None:
        assert same_bits(architecture, learners[0].architecture)
        seen.append((phase, float(loss())))

    learners[0] = rewrap(learners[0], Wrapped(learners[0], begin_phase=look))
    report = group_of(learners).step(*make_batches()).learners[0]
    assert seen == [("v", report.v_loss), ("w", report.w_loss), ("w_unlabeled", report.w_unlabeled_loss)]


def test_a_correction_after_the_step_is_undone_with_the_step() -> None:
    learners = make_learners(2)
    seen: list[Tensors] = []

    def halve(architecture: Any, before: Any) -> None:
        seen.append({n: t.clone() for n, t in before.items()})
        for tensor in architecture.values():
            tensor.mul_(0.5)

    def fail(architecture: Any, before: Any) -> None:  # noqa: ARG001
        raise RuntimeError("no")

    reference, before = make_learners(2), state_of(learners)
    group_of(reference).step(*make_batches())
    learners[0] = rewrap(learners[0], Wrapped(learners[0], after_step=halve))
    group_of(learners).step(*make_batches())
    for name, tensor in learners[0].architecture.items():
        assert torch.equal(tensor, 0.5 * reference[0].architecture[name])
    assert all(torch.equal(before[f"0/a/{n}"], t) for n, t in seen[0].items())
    failing: SmallGroup = group_of([learners[0], rewrap(learners[1], Wrapped(learners[1], after_step=fail))])
    before = state_of(learners)
    with pytest.raises(RuntimeError, match="no"):
        failing.step(*make_batches())
    assert same_bits(before, state_of(learners))
