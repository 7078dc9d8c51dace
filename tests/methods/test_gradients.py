"""Groups of the built-in methods against the unrolled problem, with the draws fixed."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from smallgroup import kernels
from smallgroup.group import Learner, SmallGroup
from smallgroup.methods import METHODS, Method, Progress
from smallgroup.spaces.edges import weights_of_operations
from smallgroup.spaces.space import Mixture
from smallgroup.testing import SmoothSpace
from smallgroup.testing.groups import batches_for, group_of, relaxed_of
from tests.group import oracle

XI = 0.1
OPTIONS: dict[str, dict[str, Any]] = {
    "dr-nas": {"divergence": 1e-3},
    "drop-nas": {"rate": 0.1},
    "dsnas": {"cost_weight": 1e-4},
    "noisy-darts": {"drop_path": 0.2},
    "p-darts": {"dropout": (0.4, 0.4, 0.7)},
    "parsec": {"children": 2},
    "proxyless": {"gates": "two", "cost_weight": 0.1},
    "r-darts": {"drop_path": 0.4},
    "sdarts-adv": {"first_epsilon": 0.2, "ascents": 2},
    "sdarts-rs": {"first_epsilon": 0.2},
    "snas": {"cost_weight": 0.1},
}
"""Such that everything a method does is seen."""
AMID = Progress(epoch=6, epochs=10, step=60, steps=100, frozen=4)
"""The epoch that schedules are of: dropout, drop path, temperatures and growing penalties have begun."""
PENALIZED = {"bayes-nas", "beta-darts", "dr-nas", "dsnas", "fair-darts", "proxyless", "snas"}
"""The methods with a penalty."""
TERMS = ("direct", "own", "cross", "label")


class Sampled:
    """A learner whose outputs are the logits of several children and the log-probability of each."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.w, self.v, self.architecture = learner, learner.w, learner.v, learner.architecture

    def outputs(self, weights: Any, architecture: Any, inputs: Any, phase: Any) -> tuple[Tensor, Tensor]:
        relaxed = relaxed_of(self.learner)
        noise = [relaxed.noise(architecture, phase, s) for s in range(relaxed.method.samples)]
        log_p = torch.stack([relaxed.method.log_probability(architecture, each) for each in noise])
        return self.learner.outputs(weights, architecture, inputs, phase), log_p


def marginal(losses: Sequence[Tensor], log_p: Tensor, size: int) -> Tensor:
    """-log of the mean over children of exp(-L_k), L_k summed over the batch; p(A_k) is 1 but for its derivative."""
    terms = [log_p[k] - log_p[k].detach() - size * loss for k, loss in enumerate(losses)]
    return -(torch.stack(terms).exp().sum() / len(losses)).log() / size


WRITTEN = oracle.Written(
    loss=lambda outputs, y: marginal([functional.cross_entropy(one, y) for one in outputs[0]], outputs[1], len(y)),
    hand=lambda outputs, _: outputs[0].softmax(dim=2).mean(dim=0),
    pupil=lambda outputs, p: marginal(
        [-(p * one.log_softmax(dim=1)).sum(dim=1).mean() for one in outputs[0]], outputs[1], len(p)
    ),
    nothing=oracle.CLASSIFICATION.nothing,
    together=True,
)
"""Classification by children; nothing in it is the library's."""


def attached(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operations that ran without a gradient run with one.

    What is detached has the weight zero, so that no gradient of the weights sees it; the derivative of the
    architecture's gradient along the weights does.
    """
    original = method.mix

    def mix(*arguments: Any) -> dict[str, Mixture]:
        mixtures = original(*arguments)
        for mixture in mixtures.values():
            mixture.evaluate = "all" if mixture.evaluate == "detached" else mixture.evaluate
        return mixtures

    monkeypatch.setattr(method, "mix", mix)


def amid_a_search(name: str, count: int, **options: Any) -> SmallGroup:
    """Learners of a method in the middle of their schedules."""
    methods = [METHODS[name](**OPTIONS.get(name, {})) for _ in range(count)]
    group = group_of(SmoothSpace(), methods, v_lr=XI, w_lr=XI, **options)
    for method in methods:
        method.schedule(AMID)
    return group


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_every_term_equals_that_of_the_unrolled_problem(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    space = SmoothSpace()
    batches = batches_for(space)
    group = amid_a_search(name, count, hypergradient="exact")
    found = group.architecture_gradients(*batches, parts=True)
    step = oracle.plain(XI)
    learners: Any = group.learners
    options: dict[str, Any] = {}
    if relaxed_of(group.learners[0]).method.samples > 1:
        learners, options = [Sampled(learner) for learner in learners], {"written": WRITTEN}
    for learner in group.learners:
        attached(relaxed_of(learner).method, monkeypatch)
    with kernels.using("plain"):  # the oracle differentiates twice
        expected = oracle.term_gradients(learners, batches, lam=1.0, step_v=step, step_w=step, **options)
    for k, learner in enumerate(group.learners):
        penalty = learner.penalty(leaves := {n: t.clone().requires_grad_() for n, t in learner.architecture.items()})
        assert (penalty is not None) == (name in PENALIZED)
        if penalty is not None:
            for (n, _), g in zip(leaves.items(), torch.autograd.grad(penalty, list(leaves.values())), strict=True):
                expected[k]["direct"][n] = expected[k]["direct"][n] + g
        for term in TERMS:
            size = math.sqrt(sum(float((t**2).sum()) for t in expected[k][term].values()))
            if count == 1 and term in ("cross", "label"):
                assert not any(bool(t.any()) for t in found[k][term].values())
            elif size == 0:  # as the labels of children that are sampled: alpha does not move them
                assert not any(bool(t.any()) for t in found[k][term].values()), (k, term)
            else:
                assert oracle.relative(found[k][term], expected[k][term]) < 1e-9, (k, term)
    check_other_modes(name, count, expected)


def check_other_modes(name: str, count: int, expected: Any) -> None:
    """First order is the direct term at the new weights; finite differences are as near as central ones are."""
    space = SmoothSpace()
    for mode, tolerance in (("first-order", 1e-9), ("finite-difference", 1e-4)):
        group = amid_a_search(name, count, hypergradient=mode, radius=1e-4)
        for k, terms in enumerate(group.architecture_gradients(*batches_for(space), parts=True)):
            for term in TERMS:
                if mode == "first-order" and term != "direct":
                    assert not any(bool(t.any()) for t in terms[term].values()), (k, term)
                elif any(bool(t.any()) for t in expected[k][term].values()):
                    assert oracle.relative(terms[term], expected[k][term]) < tolerance, (mode, k, term)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_weights_that_oles_stopped_do_not_move_in_the_unrolled_problem(count: int) -> None:
    """Every other operation is stopped; the inner steps of V and W leave its weights where they are."""
    batches = batches_for(SmoothSpace())
    free = amid_a_search("oles", count, hypergradient="exact")
    operations = weights_of_operations(relaxed_of(free.learners[0]).supernet)
    names = {name for own in operations[::2] for name in own}

    def step(_: int, weights: oracle.Tensors, gradient: oracle.Tensors) -> oracle.Tensors:
        return {n: t if n in names else t - XI * gradient[n] for n, t in weights.items()}

    with kernels.using("plain"):
        expected, all_move = (
            oracle.term_gradients(free.learners, batches, lam=1.0, step_v=one, step_w=one)
            for one in (step, oracle.plain(XI))
        )
    for mode, tolerance in (("exact", 1e-9), ("finite-difference", 1e-4)):
        group = amid_a_search("oles", count, hypergradient=mode, radius=1e-4)
        for learner in group.learners:
            relaxed_of(learner).method.state["frozen"] = torch.arange(len(operations)) % 2 == 0
        for k, terms in enumerate(group.architecture_gradients(*batches, parts=True)):
            for term in TERMS[: 2 if count == 1 else 4]:
                assert oracle.relative(terms[term], expected[k][term]) < tolerance, (mode, k, term)
                assert oracle.relative(all_move[k][term], expected[k][term]) > 1e-3, (k, term)
