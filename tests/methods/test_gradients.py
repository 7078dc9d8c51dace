"""Groups of the built-in methods against the unrolled problem, with the draws fixed."""

import pytest
import torch

from smallgroup import kernels
from smallgroup.methods import METHODS
from smallgroup.testing import SmoothSpace
from smallgroup.testing.groups import batches_for, group_of
from tests.group import oracle

XI = 0.1


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_every_term_equals_that_of_the_unrolled_problem(name: str, count: int) -> None:
    space = SmoothSpace()
    batches = batches_for(space)
    group = group_of(space, [METHODS[name]() for _ in range(count)], hypergradient="exact", v_lr=XI, w_lr=XI)
    found = group.architecture_gradients(*batches, parts=True)
    step = oracle.plain(XI)
    with kernels.using("plain"):  # the oracle differentiates twice
        expected = oracle.term_gradients(group.learners, batches, lam=1.0, step_v=step, step_w=step)
    for k, learner in enumerate(group.learners):
        penalty = learner.penalty(leaves := {n: t.clone().requires_grad_() for n, t in learner.architecture.items()})
        if penalty is not None:
            for (n, _), g in zip(leaves.items(), torch.autograd.grad(penalty, list(leaves.values())), strict=True):
                expected[k]["direct"][n] = expected[k]["direct"][n] + g
        for term in ("direct", "own", "cross", "label"):
            if count == 1 and term in ("cross", "label"):
                assert not any(bool(t.any()) for t in found[k][term].values())
            else:
                assert oracle.relative(found[k][term], expected[k][term]) < 1e-9, (k, term)
