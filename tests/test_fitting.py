"""Lengths and sizes that fit into a time, with a clock that stands still and steps of a known length."""

from typing import Any

import pytest

from smallgroup import fitting
from smallgroup.config import Config, resolve
from smallgroup.fitting import network_for_steps, search_within, training_within
from smallgroup.jobs import make_job, training_data_of
from smallgroup.phases.passes import FORWARD
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.timing import FEWEST_STEPS, Part, StepTimes
from smallgroup.phases.training import TrainingJob
from smallgroup.phases.training.config import Limits
from smallgroup.phases.training.latency import Latencies
from smallgroup.phases.training.size import WIDTHS, size_of
from smallgroup.runtime import budget as budgets
from smallgroup.runtime.budget import Budget
from smallgroup.spaces.nas_bench_201.cell import Cell

CELL = Cell.parse("|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|none~0|skip_connect~1|nor_conv_3x3~2|")
CHANNEL = 0.01
"""Seconds of a step for each channel of the network."""


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring takes no time; a step of a training takes as long as the network is wide."""
    monkeypatch.setitem(budgets.CLOCKS, "wall", lambda: 5.0)
    monkeypatch.setattr(TrainingJob, "measure", lambda job, **_: CHANNEL * job.config.network.channels)


def config(**training: Any) -> Config:
    network = {"channels": 6, "cells_per_stage": 1}
    keys = {"batch_size": 100, "validation": 0.0, "least_steps": None, "network": network, **training}
    search = {"epochs": 4, "steps_per_epoch": 10, "batch_size": {"train": 4, "unlabeled": 4, "validation": 4}}
    space = {"name": "nas-bench-201", "channels": 2}
    return resolve({"learners": 1, "hypergradient": "first-order", "space": space, "search": search, "training": keys})


def spent(asked: Config) -> float:
    """Seconds of a training by the same steps: epochs, looks at validation images, and the one at the test images."""
    data, training = training_data_of(asked), asked.training
    step = CHANNEL * training.network.channels
    assert training.steps_per_epoch is not None
    assert data.tested is not None
    looked = training.epochs * (0 if data.validation is None else len(data.validation)) + len(data.tested[1])
    return training.epochs * training.steps_per_epoch * step + looked * FORWARD * step / training.batch_size


@pytest.mark.parametrize(("validation", "share"), [(0.0, 1.0), (0.2, 1.0), (0.0, 0.25)])
def test_a_training_has_the_epochs_that_fit(validation: float, share: float) -> None:
    asked = config(validation=validation)
    found = training_within(asked, CELL, Budget(40.0), share)
    assert found.training.network == asked.training.network
    steps, epochs = found.training.steps_per_epoch or 0, found.training.epochs
    whole = len(training_data_of(asked).train(100, 0, "cpu"))
    assert steps <= whole
    # Neither more epochs nor longer ones would fit.
    for more in ({"steps_per_epoch": steps + 1}, {"epochs": epochs + 1}):
        longer = found.model_copy(update={"training": found.training.model_copy(update=more)})
        assert spent(found) <= share * 40.0 < spent(longer)


@pytest.mark.parametrize("width", [12, 24])
def test_the_network_is_the_largest_that_leaves_time_for_the_least_steps(width: int) -> None:
    """As much time as this width needs for them, and hardly more: the next wider one has too few steps."""
    least = 60
    seconds = 1.05 * spent(resolved_to(config(least_steps=least), width, epochs=4))
    found = training_within(config(least_steps=least), CELL, Budget(seconds))
    assert found.training.network.channels == width
    assert found.training.epochs == 4
    wider = WIDTHS[WIDTHS.index(width) + 1]
    assert spent(resolved_to(config(), wider, epochs=4)) > seconds


def resolved_to(asked: Config, channels: int, epochs: int) -> Config:
    """The same training of a width and a length; an epoch of digits has 15 steps of 100 images."""
    changes = [f"training.network.channels={channels}", f"training.epochs={epochs}", "training.steps_per_epoch=15"]
    return resolve(asked.to_dict(), changes)


def test_limits_hold_however_much_time_there_is() -> None:
    asked, images = config(least_steps=10), training_data_of(config()).dataset.spec
    network = asked.training.network
    limit = size_of(CELL, network.model_copy(update={"channels": 14}), images).parameters
    limited = resolve(asked.to_dict(), [f"training.max_parameters={limit}"])
    found = training_within(limited, CELL, Budget(1000.0)).training.network
    assert found.channels == 14  # between two of the widths to choose from
    assert size_of(CELL, found, images).within(Limits(parameters=limit))


def test_where_no_network_has_time_enough_it_is_the_smallest() -> None:
    found = training_within(config(least_steps=10**6), CELL, Budget(10.0)).training
    assert found.network.channels == WIDTHS[0]
    assert found.epochs * (found.steps_per_epoch or 0) < 10**6


def test_epochs_are_shorter_where_not_a_whole_one_fits() -> None:
    asked = config()
    tested = spent(resolved_to(asked, 6, epochs=1)) - 15 * 6 * CHANNEL
    found = training_within(asked, CELL, Budget(tested + 5.5 * 6 * CHANNEL)).training
    assert (found.epochs, found.steps_per_epoch) == (1, 5)
    with pytest.raises(ValueError, match=r"enough for a step of the training, 0\.06 s here, but \S+ s of it are left"):
        training_within(asked, CELL, Budget(tested + 0.5 * 6 * CHANNEL))


def even(step: float, end: float) -> StepTimes:
    """Every step costs the same, in whatever stage."""
    seconds: dict[Part, float] = {(kind, (0,)): step for kind in ("labelers", "weights", "all")}
    return StepTimes({**seconds, ("end", (0,)): end})


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> StepTimes:
    cost = even(1.0, 2.0)

    def measure(_: SearchJob, clock: Any) -> StepTimes:
        assert clock() == 5.0  # that of the budget
        return cost

    monkeypatch.setattr(fitting, "measure", measure)
    return cost


@pytest.mark.parametrize(("seconds", "share"), [(48.0, 1.0), (96.0, 0.5), (1e6, 1.0)])
def test_a_search_that_fits_stays_as_it_is(seconds: float, share: float, measured: StepTimes) -> None:
    asked = config()
    found = search_within(asked, Budget(seconds), share)
    assert found.config == asked
    assert found.seconds == measured.of(make_job(asked).course) == 4 * (10 * 1.0 + 2.0)


@pytest.mark.parametrize(("seconds", "share"), [(47.0, 1.0), (30.0, 1.0), (24.0, 1.0), (24.0, 0.9)])
def test_a_search_that_does_not_fit_is_shortened(seconds: float, share: float, measured: StepTimes) -> None:
    asked = config()
    found = search_within(asked, Budget(seconds), share)
    assert found.seconds == share * seconds
    assert measured.of(make_job(found.config).course) <= share * seconds
    search = found.config.search
    assert FEWEST_STEPS <= search.epochs * (search.steps_per_epoch or 0) < 40
    length = {"epochs": asked.search.epochs, "steps_per_epoch": asked.search.steps_per_epoch}
    assert found.config.model_copy(update={"search": search.model_copy(update=length)}) == asked


@pytest.mark.usefixtures("measured")
def test_a_search_needs_a_few_steps_at_least() -> None:
    with pytest.raises(
        ValueError, match=r"enough for the shortest search, 4 epochs of 3 steps, about 20\.0 s here, but"
    ):
        search_within(config(), Budget(11.0))


def test_a_network_for_given_steps_is_the_largest_within_the_time_and_the_limits() -> None:
    def width(seconds: float, **limits: float) -> int:
        latencies = Latencies(lambda _: [])
        return network_for_steps(config(**limits), CELL, latencies, steps=100, seconds=seconds).channels

    assert [width(seconds) for seconds in (1.0, 8.5, 12.5, 17.0)] == [8, 8, 12, 16]
    assert width(600.0, max_flash_kb=40.0) == width(40.0, max_flash_kb=40.0)
    assert width(1.0, max_flash_kb=40.0) == 8 < width(600.0, max_flash_kb=40.0)
