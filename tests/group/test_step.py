"""What a committed step does: optimizers, the derivative of their steps, identity of tensors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from smallgroup.group import Learner, Optimizers, SmallGroup, step_derivative
from tests.group import oracle
from tests.group.checks import XI, expected_terms, group_of, term_errors
from tests.group.networks import Batches, make_batches, make_learners, same_bits, state_of

MODES = ["first-order", "finite-difference", "exact"]


def with_optimizers(
    learners: list[Learner], make: Callable[[list[Tensor]], Optimizer], clip: float | None = None
) -> list[Optimizers]:
    return [
        Optimizers(
            v=make(list((learner.v or {}).values())),
            w=make(list(learner.w.values())),
            v_clip=clip,
            w_clip=clip and 1.5 * clip,
        )
        for learner in learners
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_step_applies_the_gradient_bit_for_bit(mode: str, count: int, dtype: torch.dtype) -> None:
    learners = make_learners(count, dtype)
    group = group_of(learners, hypergradient=mode, architecture_lr=0.5)
    for seed in range(3):
        batches = make_batches(dtype, seed=seed)
        expected = group.architecture_gradients(*batches)
        before = [{n: t.clone() for n, t in learner.architecture.items()} for learner in learners]
        report = group.step(*batches)
        for k, learner in enumerate(learners):
            assert same_bits(report.learners[k].gradient, expected[k])
            moved = {n: t.add(expected[k][n], alpha=-0.5) for n, t in before[k].items()}
            assert same_bits(moved, learner.architecture)
    assert group.steps == 3


@pytest.mark.parametrize("mode", MODES)
def test_weights_move_as_equations_4_and_5_say(mode: str) -> None:
    learners, batches = make_learners(2), make_batches()
    (x, y), u, _ = batches
    v, w = ([{n: t.clone().requires_grad_() for n, t in getattr(a, r).items()} for a in learners] for r in "vw")
    p = []
    for k, learner in enumerate(learners):
        loss = torch.nn.functional.cross_entropy(learner.logits(v[k], learner.architecture, x, "v"), y)
        g = torch.autograd.grad(loss, list(v[k].values()))
        v[k] = {n: t.detach() - XI * d for (n, t), d in zip(v[k].items(), g, strict=True)}
        p.append(learner.logits(v[k], learner.architecture, u, "label").softmax(dim=1))
    for k, learner in enumerate(learners):
        loss = torch.nn.functional.cross_entropy(learner.logits(w[k], learner.architecture, x, "w"), y)
        soft = learner.logits(w[k], learner.architecture, u, "w_unlabeled").log_softmax(dim=1)
        loss = loss - 0.7 * (p[1 - k] * soft).sum(dim=1).mean()
        g = torch.autograd.grad(loss, list(w[k].values()))
        w[k] = {n: t.detach() - XI * d for (n, t), d in zip(w[k].items(), g, strict=True)}
    report = group_of(learners, hypergradient=mode, lam=0.7).step(*batches)
    for k, learner in enumerate(learners):
        assert oracle.relative(learner.v or {}, v[k]) < 1e-14
        assert oracle.relative(learner.w, w[k]) < 1e-14
        assert torch.allclose(report.learners[k].soft_labels, p[k])  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_steps_are_in_place(mode: str) -> None:
    learners = make_learners(2)
    tensors = [t for a in learners for t in (*a.architecture.values(), *(a.v or {}).values(), *a.w.values())]
    before = [(id(t), t.data_ptr(), t.clone()) for t in tensors]
    group_of(learners, hypergradient=mode).step(*make_batches())
    after = [t for a in learners for t in (*a.architecture.values(), *(a.v or {}).values(), *a.w.values())]
    for (identity, address, value), tensor in zip(before, after, strict=True):
        assert (id(tensor), tensor.data_ptr()) == (identity, address)
        assert not torch.equal(value, tensor)
        assert tensor.grad is None


def _two_rates(parameters: list[Tensor]) -> Optimizer:
    groups: list[dict[str, Any]] = [{"params": parameters[:1], "lr": 0.1}, {"params": parameters[1:]}]
    return SGD(groups, lr=XI)


CASES: dict[str, tuple[Callable[[list[Tensor]], Optimizer], float | None]] = {
    "momentum": (lambda p: SGD(p, lr=XI, momentum=0.9, weight_decay=0.1), None),
    "dampening": (lambda p: SGD(p, lr=XI, momentum=0.9, dampening=0.4), None),
    "nesterov": (lambda p: SGD(p, lr=XI, momentum=0.9, nesterov=True, weight_decay=0.1), None),
    "clipping": (lambda p: SGD(p, lr=XI, momentum=0.9), 0.2),
    "adam": (lambda p: Adam(p, lr=0.05, betas=(0.5, 0.9), weight_decay=0.1), None),
    "adamw": (lambda p: AdamW(p, lr=0.05, weight_decay=0.1), None),
    "adam, clipped": (lambda p: Adam(p, lr=0.05), 0.2),
    "groups": (_two_rates, None),
}


def differentiable_step(learners: list[Learner], optimizers: list[Optimizers], role: str) -> oracle.Step:
    """The step of a torch optimizer as a function of its gradient: run by torch itself, in its differentiable mode.

    Clipping multiplies by a factor that is held constant; buffers start from where the optimizer has them.
    """

    def step(k: int, weights: oracle.Tensors, gradient: oracle.Tensors) -> oracle.Tensors:
        own: Optimizer = getattr(optimizers[k], role)
        clip = getattr(optimizers[k], f"{role}_clip")
        size = torch.cat([g.detach().flatten() for g in gradient.values()]).norm()
        factor = 1.0 if clip is None else min(1.0, clip / (float(size) + 1e-6))
        live = list(getattr(learners[k], role).values())
        result = {}
        for name, tensor in zip(weights, live, strict=True):
            group = next(g for g in own.param_groups if any(q is tensor for q in g["params"]))
            leaf = weights[name].detach().clone().requires_grad_()
            moving = leaf.clone()
            options = {n: v for n, v in group.items() if n not in ("params", "decoupled_weight_decay", "initial_lr")}
            options |= {"foreach": False, "fused": None, "differentiable": True}
            copy = type(own)([leaf], **options)
            copy.param_groups[0]["params"] = [moving]
            # Torch counts steps in float32, too coarse for its differentiable bias correction.
            copy.state[moving] = {n: v.clone().double() for n, v in own.state[tensor].items()}
            moving.grad = factor * gradient[name]
            copy.step()
            result[name] = moving
        return result

    return step


@pytest.mark.parametrize("case", CASES)
def test_xi_is_the_derivative_of_the_committed_step(case: str) -> None:
    """Against torch's own differentiable optimizers, from the second step on: before, torch cuts their buffers off."""
    make, clip = CASES[case]
    learners = make_learners(2)
    optimizers = with_optimizers(learners, make, clip)
    group = group_of(learners, hypergradient="exact", optimizers=optimizers)
    group.step(*make_batches(seed=0))
    for seed in (1, 2):
        expected = oracle.term_gradients(
            learners,
            make_batches(seed=seed),
            lam=1.0,
            step_v=differentiable_step(learners, optimizers, "v"),
            step_w=differentiable_step(learners, optimizers, "w"),
        )
        report = group.step(*make_batches(seed=seed))
        errors = term_errors([learner.terms for learner in report.learners], expected)
        assert len(errors) == 8
        assert max(errors.values()) < 1e-8, errors


@pytest.mark.parametrize("case", [name for name, (_, clip) in CASES.items() if clip is None])
def test_the_derivative_of_a_step_equals_central_differences_of_it(case: str) -> None:
    """From the very first step, by running the optimizer itself on a gradient moved up and down."""
    make, _ = CASES[case]
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2)]
    history = [[torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2)] for _ in range(3)]

    def after(count: int, change: float) -> tuple[Optimizer, list[Tensor]]:
        """Parameters after `count` steps, the last of them on a gradient changed in every entry."""
        parameters = [t.clone() for t in start]
        optimizer = make(parameters)
        for step in range(count):
            for tensor, g in zip(parameters, history[step], strict=True):
                tensor.grad = g + (change if step == count - 1 else 0.0)
            optimizer.step()
        return optimizer, parameters

    for count in (1, 2, 3):
        optimizer, before = after(count - 1, 0.0)
        ahead, behind = after(count, 1e-5)[1], after(count, -1e-5)[1]
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                i = next(i for i, t in enumerate(before) if t is parameter)
                xi = step_derivative(optimizer, group, parameter, history[count - 1][i])
                expected = -(ahead[i] - behind[i]) / 2e-5
                assert torch.allclose(torch.as_tensor(xi).double().expand(5), expected, rtol=1e-5, atol=1e-9)


def test_finite_differences_use_the_same_xi() -> None:
    make, clip = CASES["nesterov"]
    terms = {}
    for mode in ("exact", "finite-difference"):
        learners = make_learners(2)
        group = group_of(learners, hypergradient=mode, optimizers=with_optimizers(learners, make, clip))
        group.step(*make_batches(seed=1))
        terms[mode] = [learner.terms for learner in group.step(*make_batches(seed=2)).learners]
    for k in range(2):
        for term in ("own", "cross", "label"):
            assert oracle.relative(terms["finite-difference"][k][term], terms["exact"][k][term]) < 1e-2


def test_adam_and_clipping_for_the_architecture() -> None:
    learners, batches = make_learners(2), make_batches()
    adam = [Adam(list(a.architecture.values()), lr=0.01, betas=(0.5, 0.999), weight_decay=1e-3) for a in learners]
    group = group_of(learners, optimizers=[Optimizers(architecture=o, architecture_clip=0.004) for o in adam])
    gradients = group.architecture_gradients(*batches)
    copies = [{n: t.clone() for n, t in a.architecture.items()} for a in learners]
    group.step(*batches)
    for k, learner in enumerate(learners):
        for n, t in copies[k].items():
            t.grad = gradients[k][n].clone()
        assert torch.nn.utils.clip_grad_norm_(copies[k].values(), 0.004) > 0.004
        Adam(list(copies[k].values()), lr=0.01, betas=(0.5, 0.999), weight_decay=1e-3).step()
        assert oracle.relative(learner.architecture, copies[k]) < 1e-9


def test_schedules_come_from_outside() -> None:
    learners = make_learners(2)
    group = group_of(learners, hypergradient="exact")
    for own in group.optimizers:
        assert own.v is not None
        assert own.w is not None
        for optimizer in (own.v, own.w):
            optimizer.param_groups[0]["lr"] = 0.1
    report = group.step(*make_batches())
    expected = expected_terms(make_learners(2), step_v=oracle.plain(0.1), step_w=oracle.plain(0.1))
    assert max(term_errors([a.terms for a in report.learners], expected).values()) < 1e-11


def test_any_optimizer_will_do_in_first_order_mode_and_an_unknown_one_is_refused_otherwise() -> None:
    learners = make_learners(2)
    optimizers = with_optimizers(learners, lambda p: RMSprop(p, lr=0.01))
    group = group_of(learners, hypergradient="first-order", optimizers=optimizers)
    group.step(*make_batches())
    assert all(bool(a.w["head.weight"].isfinite().all()) for a in learners[:1])
    with pytest.raises(TypeError, match="SGD, Adam and AdamW, but got RMSprop"):
        group_of(learners, optimizers=optimizers)
    only_v = [Optimizers(v=own.v) for own in optimizers]
    with pytest.raises(TypeError, match="SGD, Adam and AdamW, but got RMSprop"):
        group_of(learners, optimizers=only_v)
    with pytest.raises(ValueError, match="amsgrad"):
        group_of(learners, optimizers=with_optimizers(learners, lambda p: Adam(p, amsgrad=True)))


def test_the_derivative_of_another_optimizer_can_be_registered() -> None:
    class Halved(SGD):
        pass

    @step_derivative.register
    def _(optimizer: Halved, group: dict[str, Any], parameter: Tensor, gradient: Tensor) -> float | Tensor:  # noqa: ARG001
        return float(group["lr"]) / 2

    learners = make_learners(1)
    plain = group_of(make_learners(1), hypergradient="exact").step(*make_batches()).learners[0]
    halved = group_of(
        learners, hypergradient="exact", optimizers=[Optimizers(w=Halved(list(learners[0].w.values()), lr=XI))]
    ).step(*make_batches())
    assert oracle.relative({n: 2 * t for n, t in halved.learners[0].terms["own"].items()}, plain.terms["own"]) < 1e-12


def test_without_validation_the_architectures_stay() -> None:
    learners = make_learners(2)
    twins = make_learners(2)
    train, u, validation = make_batches()
    report = group_of(learners).step(train, u, None)
    group_of(twins, architecture_lr=0.0).step(train, u, validation)
    assert report.learners[0].validation_loss is None
    assert report.learners[0].gradient == {}
    assert same_bits(state_of(learners), state_of(twins))


def test_a_clip_that_is_not_reached_changes_nothing() -> None:
    learners, twins = make_learners(2), make_learners(2)
    limits = [Optimizers(v_clip=1e6, w_clip=1e6, architecture_clip=1e6) for _ in learners]
    group_of(learners, optimizers=limits).step(*make_batches())
    group_of(twins).step(*make_batches())
    assert same_bits(state_of(learners), state_of(twins))


def test_plain_steps_use_the_rate_of_each_tensor() -> None:
    learners = make_learners(2)
    group = group_of(learners, hypergradient="exact", optimizers=with_optimizers(learners, _two_rates))
    expected = group.architecture_gradients(*make_batches())
    report = group.step(*make_batches())
    assert all(same_bits(a.gradient, b) for a, b in zip(report.learners, expected, strict=True))


def test_adam_has_a_finite_derivative_where_the_gradient_is_zero() -> None:
    parameter = torch.ones(2, dtype=torch.float64)
    adam = Adam([parameter], lr=0.1)
    xi = step_derivative(adam, adam.param_groups[0], parameter, torch.zeros(2, dtype=torch.float64))
    assert torch.allclose(torch.as_tensor(xi), torch.full((2,), 0.1 / 1e-8, dtype=torch.float64))


def check_losses_fall(learners: list[Learner], batches: Batches) -> None:
    group = SmallGroup(learners, v_lr=0.1, w_lr=0.1, architecture_lr=0.1)
    first = group.step(*batches)
    for _ in range(30):
        last = group.step(*batches)
    for before, after in zip(first.learners, last.learners, strict=True):
        for name in ("v_loss", "w_loss", "w_unlabeled_loss"):
            assert getattr(after, name) < getattr(before, name)


def test_thirty_steps_on_one_batch_lower_every_training_loss() -> None:
    check_losses_fall(make_learners(3), make_batches())
