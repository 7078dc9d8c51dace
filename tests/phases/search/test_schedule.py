"""What happens when in a search, against closed forms."""

import math
from typing import Any, get_args

import pytest

from smallgroup.config import resolve
from smallgroup.phases.search.schedule import Course, Schedule, StepKind
from smallgroup.phases.search.timing import parts
from tests.configs import search_config


def schedule(
    steps_per_epoch: int = 10, *, teaches: bool = True, number_of_stages: int = 1, warmup: float = 0.0, **config: Any
) -> Schedule:
    return Schedule(search_config(**config), steps_per_epoch, teaches, number_of_stages, warmup)


def cosine(share: float, high: float = 0.025, low: float = 0.001) -> float:
    return low + (high - low) * (1 + math.cos(math.pi * share)) / 2


def test_what_a_step_moves() -> None:
    made = schedule(epochs=10, v_warmup=0.1, architecture_warmup=0.25)
    assert [made.kind(step) for step in (0, 9, 10, 24, 25, 99)] == ["labelers"] * 2 + ["weights"] * 2 + ["all"] * 2
    (stage,) = made.stages
    assert (made.steps, stage.v_steps, stage.still) == (100, 10, 25)


def test_without_teaching_there_is_no_v_to_begin_with() -> None:
    made = schedule(teaches=False, epochs=10, v_warmup=0.1, architecture_warmup=0.25)
    assert [made.kind(step) for step in (0, 24, 25)] == ["weights", "weights", "all"]


def test_the_architecture_does_not_move_before_w() -> None:
    assert schedule(epochs=10, v_warmup=0.3).stages[0].still == 30


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
    assert (made.steps, made.stages[0].still) == (25_000, 0)
    assert made.travel(1.0) == pytest.approx(7.5)


@pytest.mark.parametrize(
    ("mode", "alone", "taught"),
    # Forward passes plus twice the backward ones, as they are counted in the tests of the group.
    [("first-order", 2 + 2 * 2, 5 + 2 * 4), ("finite-difference", 4 + 2 * 4, 12 + 2 * 11)],
)
def test_work_is_counted_in_passes(mode: str, alone: int, taught: int) -> None:
    assert Course([schedule(hypergradient=mode, teaches=False)]).work("all") == alone
    made = Course([schedule(hypergradient=mode)] * 2)
    assert [made.work(kind) for kind in get_args(StepKind)] == [1 + 2, 4 + 2 * 3, taught]


def test_stages_share_the_epochs_and_begin_anew() -> None:
    """P-DARTS: 3 x 25 epochs, of which the first 10 are for weights alone, and the rate falls in each to 0."""
    made = schedule(epochs=75, weights={"min_lr": 0.0}, number_of_stages=3, warmup=0.4)
    assert [(stage.first, stage.steps, stage.still) for stage in made.stages] == [
        (0, 250, 100),
        (250, 250, 100),
        (500, 250, 100),
    ]
    for step, epoch, kind in ((250, 0, "weights"), (349, 9, "weights"), (350, 10, "all"), (499, 24, "all")):
        progress = made.progress(step)
        assert (progress.stage, progress.epoch, progress.epochs, progress.step) == (1, epoch, 25, step - 250)
        assert (progress.frozen, progress.last_epoch) == (10, epoch == 24)
        assert made.kind(step) == kind
        assert made.w_rate(step) == pytest.approx(cosine(epoch / 25, low=0.0), abs=1e-12)


def test_epochs_that_cannot_be_shared_evenly_go_to_later_stages() -> None:
    assert [stage.epochs for stage in schedule(epochs=11, number_of_stages=3).stages] == [3, 4, 4]


def test_what_is_asked_for_stands_above_the_warm_up_of_a_method() -> None:
    assert schedule(epochs=10, warmup=0.4, architecture_warmup=0.1).stages[0].still == 10
    assert schedule(epochs=10, warmup=0.4).stages[0].still == 40


def test_v_is_trained_alone_at_the_beginning_of_each_stage() -> None:
    """The published code on P-DARTS: 5 epochs of V, 10 of V and W, 10 of all, three times."""
    config = resolve({"recipe": "released-code", "dataset": "cifar10", "method": "p-darts"})
    made = Schedule(config.search, 10, True, 3, 0.4)
    kinds = [made.kind(10 * epoch) for epoch in range(75)]
    assert kinds == (["labelers"] * 5 + ["weights"] * 10 + ["all"] * 10) * 3


def test_travel_is_that_of_a_stage() -> None:
    made = schedule(epochs=300, number_of_stages=3, architecture={"travel": 1.0})
    assert made.architecture_rate(1.0, stage=2) == pytest.approx(1 / 1000)


def test_rates_rise_where_batches_are_large() -> None:
    """PC-DARTS on ImageNet: 0.5 (e + 1) / 5 in the first five epochs, then the cosine."""
    made = schedule(epochs=50, weights={"lr": 0.5, "min_lr": 0.0, "warmup_epochs": 5})
    assert [made.w_rate(10 * epoch) for epoch in range(5)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert made.w_rate(50) == pytest.approx(cosine(0.1, 0.5, 0.0))


def test_a_group_moves_what_one_of_its_learners_moves() -> None:
    course = Course([schedule(epochs=4, warmup=0.5), schedule(epochs=4, number_of_stages=2, warmup=0.5)])
    assert [course.kind(10 * epoch) for epoch in range(4)] == ["weights", "all", "all", "all"]
    assert [(one.kind, one.stages, one.begin, one.end) for one in course.stretches] == [
        ("weights", (0, 0), 0, 10),
        ("all", (0, 0), 10, 20),
        ("all", (0, 1), 20, 30),
        ("all", (0, 1), 30, 40),
    ]


def test_labelers_go_ahead_only_together() -> None:
    config: dict[str, Any] = {"epochs": 4, "v_warmup": 0.5}
    course = Course([schedule(**config), schedule(**config, number_of_stages=2)])
    assert [course.kind(10 * epoch) for epoch in range(4)] == ["labelers", "all", "all", "all"]
    assert course.labeler_steps == 10
    later = {**config, "architecture_warmup": 0.75}
    course = Course([schedule(**later), schedule(**later, number_of_stages=2)])
    # At step 10 the first still trains V alone and the second V and W.
    assert [course.kind(step) for step in (9, 10)] == ["labelers", "weights"]


def test_parts_of_a_search_are_counted_from_any_step() -> None:
    course = Course([schedule(epochs=4, number_of_stages=2, warmup=0.5)])
    first, second = (0,), (1,)
    expected = {("weights", first): 10, ("all", first): 10, ("end", first): 2}
    assert parts(course) == expected | {("weights", second): 10, ("all", second): 10, ("end", second): 2}
    assert parts(course, 25) == {("weights", second): 5, ("all", second): 10, ("end", second): 2}
    assert parts(course, 40) == {}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {0: 0.5, 99: 0.5}),
        ({"lambda_ramp": 0.2}, {0: 0.025, 9: 0.25, 18: 0.475, 19: 0.5, 99: 0.5}),
        ({"lambda_ramp": 0.2, "v_warmup": 0.3}, {30: 0.025, 39: 0.25, 49: 0.5, 99: 0.5}),
        ({"lambda_ramp": 1.0}, {0: 0.005, 49: 0.25, 99: 0.5}),
    ],
)
def test_lambda_rises_from_the_first_step_of_w(config: dict[str, Any], expected: dict[int, float]) -> None:
    course = Course([schedule(epochs=10, lam=0.5, **config)])
    assert {step: course.lam(step) for step in expected} == pytest.approx(expected)
