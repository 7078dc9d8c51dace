"""What a step does beside its passes: copies, views and readings, none of them twice."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam
from torch.utils._python_dispatch import TorchDispatchMode

from smallgroup.group import Learner, NonFiniteError, Optimizers, SmallGroup, checks, hypergradients
from smallgroup.group.tensors import Vector, norm, read, scaled, shifted, summed, unread_norm
from tests.group.checks import group_of
from tests.group.networks import make_batches, make_learners, same_bits, state_of
from tests.group.test_failure import optimizer_state, spoil

MODES = ["first-order", "finite-difference", "exact"]


def with_momentum(learners: list[Learner]) -> SmallGroup:
    optimizers = [
        Optimizers(
            v=SGD(list((a.v or {}).values()), lr=0.1, momentum=0.9),
            w=Adam(list(a.w.values())),
            architecture=Adam(list(a.architecture.values())),
            v_clip=0.1,
            w_clip=0.1,
        )
        for a in learners
    ]
    return SmallGroup(learners, optimizers=optimizers)


def snapshot_of(group: SmallGroup) -> Any:
    assert group._snapshot is not None
    return group._snapshot


# Copies.


def test_the_copies_of_a_step_are_those_of_the_step_before() -> None:
    group = with_momentum(make_learners(2))
    group.step(*make_batches(seed=0))
    group.step(*make_batches(seed=1))  # now the optimizers have their buffers
    saved = snapshot_of(group)
    copies = [t for part in (*saved.v.values(), *saved.w.values(), *saved.architecture.values()) for t in part.values()]
    copies += [t for state in saved._states for t in state._copies]
    places = [t.data_ptr() for t in copies]
    values = [t.clone() for t in copies]
    group.step(*make_batches(seed=2))
    assert snapshot_of(group) is saved
    assert [t.data_ptr() for t in copies] == places
    assert not any(torch.equal(t, value) for t, value in zip(copies, values, strict=True))


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_step_that_fails_after_others_changes_nothing(steps: int) -> None:
    learners = make_learners(2)
    group = with_momentum(learners)
    for seed in range(steps):
        group.step(*make_batches(seed=seed))
    original = learners[1].apply
    for seed in (10, 11):
        before = state_of(learners) | optimizer_state(group)
        spoil(learners[1], "val")
        with pytest.raises(NonFiniteError):
            group.step(*make_batches(seed=seed))
        assert same_bits(before, state_of(learners) | optimizer_state(group))
        learners[1].apply = original
        group.step(*make_batches(seed=seed))
        assert not same_bits(before, state_of(learners) | optimizer_state(group))


def test_an_optimizer_that_was_replaced_is_put_back_too() -> None:
    learners = make_learners(2)
    group = with_momentum(learners)
    group.step(*make_batches(seed=0))
    group.step(*make_batches(seed=1))
    group.optimizers = with_momentum(learners).optimizers
    group.step(*make_batches(seed=2))
    before = state_of(learners) | optimizer_state(group)
    spoil(learners[1], "val")
    with pytest.raises(NonFiniteError):
        group.step(*make_batches(seed=3))
    assert same_bits(before, state_of(learners) | optimizer_state(group))


def test_buffers_that_are_gone_after_a_failure_come_back_as_tensors_of_their_own() -> None:
    """Not as those of the snapshot, which the next step would overwrite."""

    class Forgetful(SGD):
        fails = False

        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            if self.fails:
                self.state.clear()
                raise RuntimeError("no")

    learners = make_learners(1)
    own = Forgetful(list(learners[0].w.values()), lr=0.1, momentum=0.9)
    group = SmallGroup(learners, optimizers=[Optimizers(w=own)])
    for seed in range(3):
        group.step(*make_batches(seed=seed))
    before = state_of(learners) | {f"{i}": s["momentum_buffer"].clone() for i, s in enumerate(own.state.values())}
    own.fails = True
    for seed in (3, 4):
        with pytest.raises(RuntimeError, match="no"):
            group.step(*make_batches(seed=seed))
        after = state_of(learners) | {f"{i}": s["momentum_buffer"].clone() for i, s in enumerate(own.state.values())}
        assert same_bits(before, after)


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
def test_a_probe_makes_one_copy_of_the_weights_and_looks_at_that(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[set[int]] = []
    right = shifted

    def noted(*given: Any) -> Any:
        point = right(*given)
        made.append({t.data_ptr() for t in point.values()})
        return point

    monkeypatch.setattr(hypergradients, "shifted", noted)
    learners = make_learners(2)
    seen: list[set[int]] = []
    inner = learners[0].apply

    def apply(weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        seen.append({t.data_ptr() for t in weights.values()})
        result: Tensor = inner(weights, architecture, inputs, phase=phase)
        return result

    learners[0].apply = apply
    group = group_of(learners, hypergradient=mode)
    group.step(*make_batches())
    own = [{t.data_ptr() for t in tensors.values()} for tensors in (learners[0].v or {}, learners[0].w)]
    own += [{t.data_ptr() for t in point.values()} for point in (snapshot_of(group).v[0], snapshot_of(group).w[0])]
    probes = [places for places in seen if places not in own]
    # Two products per learner with two probes each, that of stage 2 for two objectives; exact ones copy nothing.
    assert len(made) == (8 if mode == "finite-difference" else 0)
    assert len(probes) == (6 if mode == "finite-difference" else 0)
    assert all(places in made for places in probes)


# Views.


def test_a_pass_may_do_what_it_likes_with_the_dictionaries_it_is_given() -> None:
    learners, twins = make_learners(2), make_learners(2)
    inner = learners[0].apply

    def apply(weights: dict[str, Tensor], architecture: dict[str, Tensor], inputs: Tensor, **options: Any) -> Tensor:
        result: Tensor = inner(dict(weights), dict(architecture), inputs, **options)
        weights.clear()
        architecture.clear()
        return result

    learners[0].apply = apply
    for group in (group_of(learners), group_of(twins)):
        for seed in range(2):
            group.step(*make_batches(seed=seed))
    assert same_bits(state_of(learners), state_of(twins))


def elsewhere(tensor: Tensor) -> None:
    tensor.data = tensor.data.clone()


def in_single_precision(tensor: Tensor) -> None:
    tensor.data = tensor.data.float()


@pytest.mark.parametrize("move", [elsewhere, in_single_precision])
@pytest.mark.parametrize("mode", MODES)
def test_tensors_that_lie_elsewhere_now_are_followed(mode: str, move: Callable[[Tensor], None]) -> None:
    """As `module.to()` does it with parameters: the same objects, in other memory."""
    learners, twins = make_learners(2), make_learners(2)
    group = group_of(learners, hypergradient=mode)
    group.step(*make_batches(seed=0))
    group_of(twins, hypergradient=mode).step(*make_batches(seed=0))
    for learner in (*learners, *twins):
        for tensor in (*learner.architecture.values(), *(learner.v or {}).values(), *learner.w.values()):
            move(tensor)
    dtype = learners[0].w["head.weight"].dtype
    group.step(*make_batches(dtype, seed=1))
    fresh = group_of(twins, hypergradient=mode)
    fresh.steps = 1
    fresh.step(*make_batches(dtype, seed=1))
    assert same_bits(state_of(learners), state_of(twins))


# Readings.


class Readings(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts how often a number is taken out of a tensor."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("clip", [None, 1e-3])
def test_a_stage_is_read_once_per_learner(clip: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses and the norm of their gradient together, also where it is clipped; and whether labels are finite."""
    together = 0

    def counted(scalars: Any) -> list[float]:
        nonlocal together
        together += 1
        return read(scalars)

    monkeypatch.setattr(checks, "read", counted)

    def apply(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
        result: Tensor = inputs.flatten(1) @ weights["m"] * architecture["a"]
        return result

    def made() -> dict[str, Tensor]:
        return {"m": torch.randn(72, 4, generator=generator, dtype=torch.float64)}

    generator = torch.Generator().manual_seed(0)
    learners = [Learner(apply, {"a": torch.ones(4).double()}, made(), made()) for _ in range(3)]
    limits = [Optimizers(v_clip=clip, w_clip=clip) for _ in learners]
    group = SmallGroup(learners, hypergradient="first-order", optimizers=limits)
    batches = make_batches()
    with Readings() as one_by_one:  # type: ignore[no-untyped-call]
        group.step(*batches)
    assert together == 3 * len(learners)
    assert one_by_one.count == len(learners)


def test_several_numbers_are_read_in_one_go_and_as_they_are() -> None:
    third = torch.tensor(1 / 3)
    values = read([third, torch.tensor([1 / 3], dtype=torch.float64), torch.tensor(float("inf"))])
    assert values == [float(third), 1 / 3, float("inf")]


# Arithmetic.


def test_sums_leave_out_who_took_no_part() -> None:
    one, two, three = torch.ones(2), torch.ones(3), torch.ones(1)
    parts: list[Vector[Tensor | None]] = [
        Vector({"a": one, "b": two, "c": None, "d": None}),
        Vector({"a": 2 * one, "b": None, "c": three, "d": None}),
    ]
    found = summed(parts)
    assert list(found) == ["a", "b", "c", "d"]
    assert torch.equal(found["a"], 3 * one)  # type: ignore[arg-type]
    assert found["b"] is two
    assert found["c"] is three
    assert found["d"] is None
    assert torch.equal(one, torch.ones(2))
    assert summed([Vector({"a": None}), Vector({"a": None})]) == {"a": None}


@pytest.mark.parametrize("dtypes", [[torch.float32], [torch.float64], [torch.bfloat16], [torch.float32, torch.float64]])
def test_products_have_the_bits_of_plain_ones(dtypes: list[torch.dtype]) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(), (3,), (17, 5), (4, 3, 3, 3)]
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes for dtype in dtypes]
    found = scaled(tensors, 0.1234567890123)
    assert all(torch.equal(a, 0.1234567890123 * b) and a.dtype == b.dtype for a, b in zip(found, tensors, strict=True))
    assert not scaled([], 2.0)


def test_norms_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    for dtypes in ([torch.float32], [torch.float64], [torch.float32, torch.float64]):
        tensors = [torch.randn(n, generator=generator).to(dtype) for n in (1, 17, 300) for dtype in dtypes]
        expected = torch.cat([t.double() for t in tensors]).norm()
        assert norm(tensors) == pytest.approx(float(expected), rel=1e-6)
        if len(dtypes) == 1:
            assert torch.equal(unread_norm(tensors), torch.nn.utils.get_total_norm(tensors))
    assert norm([]) == 0.0


def test_a_sum_that_overflows_is_not_taken_for_a_gradient() -> None:
    """Each part is finite, and their sum is not."""

    def apply(weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        logits: Tensor = inputs.flatten(1)[:, :4] * architecture["a"]
        if phase in ("w", "w_unlabeled"):
            logits = logits + Huge.apply(weights["m"])  # type: ignore[no-untyped-call]
        return logits.add(0 * weights["m"])

    class Huge(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:
            ctx.save_for_backward(value)
            return torch.zeros_like(value)

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ARG004
            (value,) = ctx.saved_tensors
            return torch.full_like(value, 1e308)

    learners = [
        Learner(apply, {"a": torch.ones(4).double()}, {"m": torch.ones(1).double()}, {"m": torch.ones(1).double()})
        for _ in range(2)
    ]
    before = state_of(learners)
    with pytest.raises(NonFiniteError, match="the sum of the gradients of all passes of learner 0 is not finite"):
        SmallGroup(learners, hypergradient="first-order").step(*make_batches())
    assert same_bits(before, state_of(learners))
