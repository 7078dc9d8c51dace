"""Known bugs of this field, put in on purpose: the checks that guard against them must fail.

Fresh noise in a probe and statistics moved by probes are in `test_noise`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.group import hypergradients, iteration, teaching
from smallgroup.group.hypergradients import Product
from smallgroup.group.optimizers import Move
from smallgroup.group.tensors import norm, shifted
from tests.group.checks import TOLERANCE, check_changes_nothing, check_terms, group_of
from tests.group.networks import make_batches, make_learners


def guarded() -> None:
    """The check of the finite-difference terms, as in `test_gradients`."""
    check_terms(3, "finite-difference", torch.float64, TOLERANCE[torch.float64])


def test_the_check_itself_passes() -> None:
    guarded()


def test_division_by_eps_the_wrong_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """(p - n) / 2. * eps."""
    right = hypergradients.finite_difference

    def wrong(objectives: Any, point: Any, direction: Any, architecture: Any, *, radius: float) -> Product:
        a = radius / norm(direction.values())
        product = right(objectives, point, direction, architecture, radius=radius)
        return Product({n: t * 2 * a / 2 * a for n, t in product.architecture.items()}, product.tables)

    monkeypatch.setattr("smallgroup.group.group.finite_difference", wrong)
    with pytest.raises(AssertionError, match="own"):
        guarded()


@pytest.mark.parametrize(("stage", "term"), [("w", "own"), ("v", "cross")])
def test_probes_around_the_new_weights(monkeypatch: pytest.MonkeyPatch, stage: str, term: str) -> None:
    """W' (or V') in place of W (or V)."""
    name = "direct_and_own" if stage == "w" else "cross_and_label"
    right: Callable[..., None] = getattr(iteration, name)

    def wrong(work: Any, k: int, product: Any) -> None:
        moves = getattr(work.found, stage)
        kept, moves[k] = moves[k], Move(moves[k].after, moves[k].after, moves[k].xi)
        right(work, k, product)
        moves[k] = kept

    monkeypatch.setattr(iteration, name, wrong)
    with pytest.raises(AssertionError, match=term):
        guarded()


def test_weights_not_restored_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes that edit the weights in place: + a d, then - 2 a d, then + a d leaves rounding behind."""

    def wrong(point: dict[str, Tensor], direction: dict[str, Tensor], amount: float) -> dict[str, Tensor]:
        result = shifted(point, direction, amount)
        for name, tensor in point.items():
            tensor.add_(direction[name], alpha=amount).add_(direction[name], alpha=-2 * amount)
            tensor.add_(direction[name], alpha=amount)
        return result

    group = group_of(make_learners(2))
    check_changes_nothing(group, make_batches())
    monkeypatch.setattr(hypergradients, "shifted", wrong)
    with pytest.raises(AssertionError):
        check_changes_nothing(group, make_batches())


def test_a_missing_cross_term(monkeypatch: pytest.MonkeyPatch) -> None:
    right = iteration.cross_and_label

    def wrong(work: Any, k: int, product: Any) -> None:
        right(work, k, product)
        work.found.terms[k].pop("cross")

    monkeypatch.setattr(iteration, "cross_and_label", wrong)
    with pytest.raises(AssertionError, match="cross"):
        guarded()


def test_targets_that_include_the_learner_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: Any, k: int, tables: Sequence[Tensor]) -> Tensor:  # noqa: ARG001
        return torch.stack(list(tables)).sum(dim=0)

    monkeypatch.setattr(teaching.Teaching, "received", wrong)
    with pytest.raises(AssertionError):
        guarded()
