"""What must hold of the gradients, as functions: the tests call them, the negative controls see them fail."""

from collections.abc import Sequence
from typing import Any

import torch

from smallgroup.group import Learner, SmallGroup
from tests.group import oracle
from tests.group.networks import make_batches, make_learners, same_bits, state_of

XI = 0.3
"""Large, so that the small terms are not lost beside the direct one."""

TOLERANCE = {torch.float64: 1e-3, torch.float32: 1e-2}
"""Of a finite-difference term, in units of that term's own norm."""


def group_of(learners: Sequence[Learner], **options: Any) -> SmallGroup:
    return SmallGroup(learners, **{"v_lr": XI, "w_lr": XI, **options})


def expected_terms(learners: Sequence[Learner], dtype: torch.dtype = torch.float64, **options: Any) -> list[Any]:
    given = {"lam": 1.0, "step_v": oracle.plain(XI), "step_w": oracle.plain(XI), **options}
    return oracle.term_gradients(learners, make_batches(dtype), **given)


def term_errors(
    found: list[dict[str, oracle.Tensors]], expected: list[dict[str, oracle.Tensors]]
) -> dict[tuple[int, str], float]:
    """The relative error of each term that exists, by learner and term; a term expected to vanish must be zero."""
    errors = {}
    for k, terms in enumerate(expected):
        for term, tensors in terms.items():
            if any(bool(t.any()) for t in tensors.values()):
                errors[k, term] = oracle.relative(found[k][term], tensors)
            else:
                assert not any(bool(t.any()) for t in found[k][term].values()), (k, term)
    return errors


def check_terms(count: int, hypergradient: Any, dtype: torch.dtype, tolerance: float) -> dict[tuple[int, str], float]:
    """Every term of every learner against the unrolled problem in float64, each in units of its own norm."""
    expected = expected_terms(make_learners(count))
    group = group_of(make_learners(count, dtype), hypergradient=hypergradient)
    errors = term_errors(group.architecture_gradients(*make_batches(dtype), parts=True), expected)
    wanted = {"direct", "own", "cross", "label"} if count > 1 else {"direct", "own"}
    assert {term for _, term in errors} == wanted
    wrong = {f"{term} of learner {k}": f"{error:.1e}" for (k, term), error in errors.items() if not error < tolerance}
    assert not wrong, wrong
    return errors


def check_changes_nothing(group: SmallGroup, batches: Any) -> None:
    """Weights, architectures, buffers, optimizers and the global generator: bit for bit as they were."""

    def everything() -> dict[str, torch.Tensor]:
        state = state_of(group.learners)
        for k, (learner, own) in enumerate(zip(group.learners, group.optimizers, strict=True)):
            module = getattr(learner.apply, "module", None)
            if module is not None:
                state |= {f"{k}/buffer/{n}": b.clone() for n, b in module.named_buffers()}
                state |= {f"{k}/parameter/{n}": p.detach().clone() for n, p in module.named_parameters()}
            for role in (own.v, own.w, own.architecture):
                for i, values in enumerate(role.state.values() if role else ()):
                    state |= {f"{k}/{role}/{i}/{n}": torch.as_tensor(v).clone() for n, v in values.items()}
        return {**state, "generator": torch.get_rng_state()}

    before = everything()
    steps = group.steps
    group.architecture_gradients(*batches)
    assert same_bits(before, everything())
    assert group.steps == steps
    assert all(t.grad is None for learner in group.learners for t in (*learner.w.values(), *(learner.v or {}).values()))
