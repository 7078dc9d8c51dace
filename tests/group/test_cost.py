"""What an iteration costs: passes, the gradients asked for, and memory, all counted."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from smallgroup.group import Learner, SmallGroup
from tests.group.checks import group_of
from tests.group.networks import make_batches, make_learners

Call = tuple[str, bool, bool]


class Counted:
    """Wraps an apply: counts forward passes, hooks the logits to count backward passes, notes what was asked for."""

    def __init__(self, learner: Learner) -> None:
        self.inner = learner.apply
        self.forward: Counter[Call] = Counter()
        self.backward: Counter[Call] = Counter()
        learner.apply = self

    def __call__(self, weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        logits: Tensor = self.inner(weights, architecture, inputs, phase=phase)
        of_weights = {t.requires_grad for t in weights.values()}
        of_architecture = {t.requires_grad for t in architecture.values()}
        assert len(of_weights) == len(of_architecture) == 1
        call = (phase, torch.is_grad_enabled() and of_weights.pop(), torch.is_grad_enabled() and of_architecture.pop())
        self.forward[call] += 1
        if logits.requires_grad:
            logits.register_hook(lambda _: self.backward.update([call]))  # type: ignore[no-untyped-call]
        return logits


NONE, WEIGHTS, ARCHITECTURE, BOTH = (False, False), (True, False), (False, True), (True, True)

FIRST_ORDER: dict[Call, int] = {
    ("v", *WEIGHTS): 1,
    ("label", *NONE): 1,
    ("w", *WEIGHTS): 1,
    ("w_unlabeled", *WEIGHTS): 1,
    ("val", *ARCHITECTURE): 1,
}
SECOND_ORDER: dict[Call, int] = {
    ("v", *WEIGHTS): 1,
    ("label", *NONE): 1,
    ("w", *WEIGHTS): 1,
    ("w_unlabeled", *WEIGHTS): 1,
    ("val", *BOTH): 1,
    ("label", *BOTH): 1,
}
ALONE: dict[str, dict[Call, int]] = {
    "first-order": {("w", *WEIGHTS): 1, ("val", *ARCHITECTURE): 1},
    "finite-difference": {("w", *WEIGHTS): 1, ("val", *BOTH): 1, ("w", *ARCHITECTURE): 2},
    "exact": {("w", *WEIGHTS): 1, ("val", *BOTH): 1, ("w", *ARCHITECTURE): 1},
}


def probes(each: int) -> dict[Call, int]:
    return {(phase, *ARCHITECTURE): each for phase in ("w", "w_unlabeled", "v")}


TAUGHT: dict[str, dict[Call, int]] = {
    "first-order": FIRST_ORDER,
    "finite-difference": SECOND_ORDER | probes(2),
    "exact": SECOND_ORDER | probes(1),
}
# Forward and backward passes per learner, as in the table of docs/hypergradient.md.
TOTALS = {
    ("first-order", True): (5, 4),
    ("finite-difference", True): (12, 11),
    ("exact", True): (9, 8),
    ("first-order", False): (2, 2),
    ("finite-difference", False): (4, 4),
    ("exact", False): (3, 3),
}


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
@pytest.mark.parametrize(("count", "lam"), [(1, 1.0), (2, 1.0), (3, 1.0), (5, 1.0), (2, 0.0)])
def test_passes_are_those_of_the_table(count: int, lam: float, mode: str, committed: bool) -> None:
    learners = make_learners(count)
    for learner in learners:
        # As parameters of a module have it: a pass must ask for what it needs, not take what it finds.
        for tensor in (*learner.architecture.values(), *(learner.v or {}).values(), *learner.w.values()):
            tensor.requires_grad_()
    counters = [Counted(learner) for learner in learners]
    group = group_of(learners, hypergradient=mode, lam=lam)
    (group.step if committed else group.architecture_gradients)(*make_batches())
    taught = count > 1 and lam > 0
    expected = TAUGHT[mode] if taught else ALONE[mode]
    for counter in counters:
        assert dict(counter.forward) == expected
        assert dict(counter.backward) == {c: n for c, n in expected.items() if c[1:] != NONE}
        assert (counter.forward.total(), counter.backward.total()) == TOTALS[mode, taught]


def test_a_fixed_architecture_alone_is_validated_without_a_backward_pass() -> None:
    (full,) = make_learners(1)
    architecture = full.architecture
    calls: Counter[tuple[str, bool]] = Counter()

    def apply(weights: Any, _: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        calls[phase, torch.is_grad_enabled()] += 1
        return full.logits(weights, architecture, inputs, phase)

    group_of([Learner(apply, {}, None, full.w)]).step(*make_batches())
    assert calls == {("w", True): 1, ("val", False): 1}


def test_without_the_label_path_no_architecture_gradient_is_asked_of_the_labels() -> None:
    learners = make_learners(2)
    counters = [Counted(learner) for learner in learners]
    group_of(learners, label_path=False).step(*make_batches())
    for counter in counters:
        assert counter.forward["label", *WEIGHTS] == 1
        assert counter.forward["label", *BOTH] == 0
        assert counter.forward.total() == 12


def test_forward_mode_is_used_in_exact_probes_and_nowhere_else() -> None:
    learners = make_learners(2)
    seen: Counter[tuple[str, bool]] = Counter()
    inner = learners[0].apply

    def apply(weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        inside = forward_ad._current_level >= 0
        tangents = inside and any(forward_ad.unpack_dual(t).tangent is not None for t in weights.values())  # type: ignore[no-untyped-call]
        seen[phase, tangents] += 1
        result: Tensor = inner(weights, architecture, inputs, phase=phase)
        return result

    learners[0].apply = apply
    group_of(learners, hypergradient="exact").step(*make_batches())
    assert {phase for phase, tangent in seen if tangent} == {"w", "w_unlabeled", "v"}
    assert sum(n for (_, tangent), n in seen.items() if tangent) == 3


def wide_learner(seed: int) -> Learner:
    """Few weights and activations of about ten megabytes: what a supernet is like."""
    generator = torch.Generator().manual_seed(seed)

    def apply(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
        x = inputs
        for _ in range(6):
            y = torch.nn.functional.conv2d(x, weights["filter"], padding=1, groups=x.shape[1])
            x = x + architecture["mix"].sigmoid() * torch.nn.functional.softplus(y)
        result: Tensor = x.mean(dim=(2, 3)) @ weights["head"]
        return result

    def weights() -> dict[str, Tensor]:
        return {
            "filter": torch.randn(8, 1, 3, 3, generator=generator) / 3,
            "head": torch.randn(8, 4, generator=generator),
        }

    return Learner(apply, {"mix": torch.zeros(())}, weights(), weights())


def peak_bytes(count: int, mode: Any) -> int:
    """The largest number of bytes that tensors held at once during a step, by the allocator's own record."""
    group = SmallGroup([wide_learner(k) for k in range(count)], hypergradient=mode)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(16, 8, 32, 32, generator=generator)
    y = torch.randint(4, (16,), generator=generator)
    group.step((x, y), x, (x, y))
    with torch.profiler.profile(profile_memory=True) as profile:
        group.step((x, y), x, (x, y))
    held = peak = 0
    results: Any = profile.profiler
    for event in results.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
def test_activations_of_one_learner_live_at_a_time(mode: str) -> None:
    """Peak memory of four learners within 10 % of that of two."""
    two, four = peak_bytes(2, mode), peak_bytes(4, mode)
    assert two > 5_000_000
    assert four < 1.1 * two
