"""What happens when in a search, against closed forms."""

import math
from typing import Any

import pytest

from smallgroup.config import resolve
from smallgroup.phases.search import SearchConfig
from smallgroup.phases.search.schedule import Schedule


def schedule(steps_per_epoch: int = 10, *, teaches: bool = True, **config: Any) -> Schedule:
    return Schedule(SearchConfig(**config), steps_per_epoch, teaches)


def cosine(share: float, high: float = 0.025, low: float = 0.001) -> float:
    return low + (high - low) * (1 + math.cos(math.pi * share)) / 2


def test_what_a_step_moves() -> None:
    made = schedule(epochs=10, v_warmup=0.1, architecture_warmup=0.25)
    assert [made.kind(step) for step in (0, 9, 10, 24, 25, 99)] == ["labellers"] * 2 + ["weights"] * 2 + ["all"] * 2
    assert (made.steps, made.v_steps, made.still) == (100, 10, 25)


def test_without_teaching_there_is_no_v_to_begin_with() -> None:
    made = schedule(teaches=False, epochs=10, v_warmup=0.1, architecture_warmup=0.25)
    assert [made.kind(step) for step in (0, 24, 25)] == ["weights", "weights", "all"]


def test_the_architecture_does_not_move_before_w() -> None:
    assert schedule(epochs=10, v_warmup=0.3).still == 30


@pytest.mark.parametrize("share", [0.9, 0.99])
def test_a_warm_up_leaves_a_step(share: float) -> None:
    made = schedule(steps_per_epoch=1, epochs=2, v_warmup=share, architecture_warmup=share)
    assert made.kind(made.steps - 1) == "all"
    assert made.w_rate(made.steps - 1) == 0.025


def test_rates_fall_along_cosines_from_epoch_to_epoch() -> None:
    """The released code: V over 50 epochs, W over the 45 in which it is trained."""
    made = schedule(epochs=50, v_warmup=0.1)
    for epoch in (0, 1, 20, 49):
        for within in (0, 9):
            assert made.v_rate(10 * epoch + within) == pytest.approx(cosine(epoch / 50), abs=1e-12)
    for epoch in (5, 6, 20, 49):
        assert made.w_rate(10 * epoch + 3) == pytest.approx(cosine((epoch - 5) / 45), abs=1e-12)


def test_a_method_keeps_its_own_rate_unless_told_otherwise() -> None:
    assert schedule(epochs=10).architecture_rate(6e-4) == 6e-4
    assert schedule(epochs=10, architecture={"lr": 1e-3}).architecture_rate(6e-4) == 1e-3


@pytest.mark.parametrize(
    ("epochs", "rate"),
    [(2500, 3e-4), (1000, 7.5e-4), (250, 3e-3), (100, 3e-3)],
)
def test_short_searches_move_the_architecture_as_far_up_to_a_limit(epochs: int, rate: float) -> None:
    """3e-4 x 25,000 / steps, at most 3e-3."""
    made = schedule(epochs=epochs, architecture={"travel": 7.5})
    assert made.architecture_rate(3e-4) == pytest.approx(rate)
    assert made.travel(3e-4) == pytest.approx(rate * 10 * epochs)


def test_travel_counts_the_steps_in_which_the_architecture_moves() -> None:
    made = schedule(epochs=10, architecture_warmup=0.2, architecture={"lr": 0.01})
    assert made.travel(3e-4) == pytest.approx(0.8)


def test_the_paper_moves_a_logit_by_7_and_a_half() -> None:
    config = resolve({"recipe": "paper", "dataset": "cifar10"})
    made = Schedule(config.search, 500, teaches=True)
    assert (made.steps, made.still) == (25_000, 0)
    assert made.travel(1.0) == pytest.approx(7.5)


@pytest.mark.parametrize(
    ("mode", "alone", "taught"),
    # Forward passes plus twice the backward ones, as they are counted in the tests of the group.
    [("first-order", 2 + 2 * 2, 5 + 2 * 4), ("finite-difference", 4 + 2 * 4, 12 + 2 * 11)],
)
def test_work_is_counted_in_passes(mode: str, alone: int, taught: int) -> None:
    assert schedule(hypergradient=mode, teaches=False).work(0) == alone
    made = schedule(hypergradient=mode, epochs=10, v_warmup=0.1, architecture_warmup=0.2)
    assert [made.work(step) for step in (0, 10, 20)] == [1 + 2, 4 + 2 * 3, taught]
    assert schedule(hypergradient=mode, order="a-v-w").work(0) == 13
