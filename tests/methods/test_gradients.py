"""Groups of the built-in methods against the unrolled problem, with the draws fixed."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from smallgroup import kernels
from smallgroup.group import Learner
from smallgroup.methods import METHODS, Method
from smallgroup.spaces.space import Mixture
from smallgroup.testing import SmoothSpace
from smallgroup.testing.groups import batches_for, group_of, relaxed_of
from tests.group import oracle

XI = 0.1
OPTIONS: dict[str, dict[str, Any]] = {
    "dr-nas": {"divergence": 1e-3},
    "drop-nas": {"rate": 0.1},
    "noisy-darts": {"drop_path": 0.2},
    "parsec": {"children": 2},
    "proxyless": {"gates": "two"},
    "sdarts-adv": {"first_epsilon": 0.2, "ascents": 2},
    "sdarts-rs": {"first_epsilon": 0.2},
}
"""Such that everything a method does is seen."""
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


def made(name: str) -> Method:
    return METHODS[name](**OPTIONS.get(name, {}))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_every_term_equals_that_of_the_unrolled_problem(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    space = SmoothSpace()
    batches = batches_for(space)
    group = group_of(space, [made(name) for _ in range(count)], hypergradient="exact", v_lr=XI, w_lr=XI)
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
        group = group_of(space, [made(name) for _ in range(count)], hypergradient=mode, radius=1e-4, v_lr=XI, w_lr=XI)
        for k, terms in enumerate(group.architecture_gradients(*batches_for(space), parts=True)):
            for term in TERMS:
                if mode == "first-order" and term != "direct":
                    assert not any(bool(t.any()) for t in terms[term].values()), (k, term)
                elif any(bool(t.any()) for t in expected[k][term].values()):
                    assert oracle.relative(terms[term], expected[k][term]) < tolerance, (mode, k, term)
