"""How long the rows of the paper's tables would take: closed forms, times that are kept, and no data."""

import json
import os
from collections.abc import Callable, Hashable
from pathlib import Path

import pytest
import torch

from smallgroup import recipes
from smallgroup.config import Config, resolve
from smallgroup.data.config import DataConfig
from smallgroup.data.published import blank_dataset, blank_search_data, blank_training_data
from smallgroup.data.search_data import split_by
from smallgroup.data.splits import split
from smallgroup.phases.passes import PassTime
from smallgroup.phases.search.learners import Searcher
from smallgroup.runner import machine
from smallgroup.runtime.memory import OutOfMemory
from smallgroup.study import row_times
from smallgroup.study.row_times import FILE, PassMeter, RowTime

MEASURED = 1_000
"""Validation images that are looked at after an epoch."""
EACH = 0.5
"""Seconds of an image in a pass with its way back."""


class Even(PassMeter):
    """A machine on which every network takes the same time."""

    def _line(self, key: Hashable, words: str, measure: Callable[[], PassTime]) -> PassTime:
        del measure
        self.tell(words)
        return self.lines.setdefault(key, lambda images: EACH * images)


def even() -> Even:
    return Even(lambda _: None)


def small(*changes: str, **keys: object) -> Config:
    """A tiny network in place of that of the row; how many passes it takes stays."""
    sizes = ["space.channels=2", "space.cells=3", "training.network.channels=4", "training.network.cells=3"]
    return resolve({"recipe": "paper", "dataset": "cifar10", "method": "darts", **keys}, [*sizes, *changes])


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMALLGROUP_DATA", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("keys", "images", "looks"),
    [
        ({"learners": 1}, 391 * 6 * 64, 2),
        ({"learners": 1, "hypergradient": "finite-difference"}, 391 * (12 + 3) * 64, 2),
        ({"learners": 2}, 500 * 2 * 34 * 50, 2 * 3),
        ({"learners": 3}, 500 * 3 * 34 * 50, 3 * 3),
    ],
)
@pytest.mark.parametrize("epochs", [1, 50])
def test_a_search_takes_its_passes(keys: dict[str, object], images: int, looks: int, epochs: int) -> None:
    found = row_times.search_time(small(f"search.epochs={epochs}", **keys), even())
    learners = int(str(keys["learners"]))
    forward = epochs * (images + looks * MEASURED) + learners * 25_000
    assert found == pytest.approx(forward * EACH / 3)


def test_a_search_is_as_long_as_its_steps() -> None:
    times = [row_times.search_time(small(f"search.steps_per_epoch={n}", learners=1), even()) for n in (10, 20, 30)]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0])
    assert times[1] - times[0] == pytest.approx(50 * 10 * 6 * 64 * EACH / 3)


@pytest.mark.parametrize("epochs", [1, 600])
def test_a_training_takes_its_passes(epochs: int) -> None:
    found = row_times.training_time(small(f"training.epochs={epochs}", learners=1), even())
    assert found == pytest.approx((epochs * 521 * 96 + 10_000 / 3) * EACH)  # 50,000 images in 521 batches


def test_every_stage_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[int] = []

    def measured(_: PassMeter, searcher: Searcher) -> PassTime:
        cells.append(own := searcher.relaxed.space.cells)  # type: ignore[attr-defined]
        return lambda images: own * images

    monkeypatch.setattr(PassMeter, "of_searcher", measured)
    changes = ["search.epochs=3", "search.steps_per_epoch=10", "space.cells=5", "search.architecture_warmup=0.4"]
    found = row_times.search_time(small(*changes, method="p-darts", learners=1), even())
    assert cells == [5, 11, 17]
    steps = (4 * 3 + 6 * 6) * 96 + 2 * MEASURED
    assert found == pytest.approx(((5 + 11 + 17) * steps + 17 * 25_000) / 3)


def test_networks_are_measured_once_although_several_rows_have_them() -> None:
    told: list[str] = []
    meter = PassMeter(told.append, {})
    alone, group = small(learners=1), small(learners=2)
    assert row_times.search_time(alone, meter) > 0
    assert row_times.search_time(group, meter) > row_times.search_time(alone, meter)
    assert row_times.search_time(small(learners=1, dataset="cifar100"), meter) > 0
    assert told == ["the supernet of darts with 3 cells, 32x32 pixels"]
    row_times.training_time(alone, meter)
    assert told[1:] == ["a network of 3 cells, 32x32 pixels"]


def test_published_sizes() -> None:
    sizes = {
        "cifar10": (25_000, 25_000, 50_000),
        "cifar100": (25_000, 25_000, 50_000),
        "imagenet": (128_116, 32_029, 128_117),
    }
    for name, (train, validation, unlabeled) in sizes.items():
        config = resolve({"recipe": "paper", "dataset": name}).data
        data = blank_search_data(config, seed=0)
        assert (len(data.splits.train), len(data.splits.validation)) == (train, validation)
        assert len(data.unlabeled_indices) == unlabeled
        assert len(data.dataset.classes) == {"cifar10": 10, "cifar100": 100, "imagenet": 1000}[name]
        assert data.train(64, 0).batch(0)[0].shape == (64, 3, data.dataset.size, data.dataset.size)
    assert len(blank_training_data(DataConfig(dataset="imagenet")).trained) == 1_281_167


def test_the_parts_of_black_images_are_as_large_as_those_of_a_run() -> None:
    config = resolve({"recipe": "paper", "dataset": "cifar10"}, ["data.held_out=0.1", "data.unlabeled=split"]).data
    real = split_by(config, blank_dataset("cifar10"), 0)
    assert real.train.tolist() != split(blank_dataset("cifar10"), seed=0, order="file").train.tolist()
    blank = blank_search_data(config, seed=0).splits
    assert real.unlabeled is not None
    assert blank.unlabeled is not None
    for one, other in ((real.train, blank.train), (real.validation, blank.validation), (real.held_out, blank.held_out)):
        assert len(one) == len(other)
    assert len(real.unlabeled) == len(blank.unlabeled)


def test_a_row_of_the_chain_space_trains_a_chain() -> None:
    rows = {(row.recipe, row.table, row.name): row_times.training_of(row) for row in recipes.rows()}
    chain, cell = rows["paper", 3, "DARTS--ImageNet"], rows["paper", 2, "DARTS-"]
    assert (chain.space.name, row_times._cell_for(chain)) == ("proxyless", None)
    assert (cell.space.name, row_times._cell_for(cell)) == ("darts", "DARTS-/cifar10_s0_0")


def test_the_cell_of_a_row_is_trained_as_its_command_says() -> None:
    rows = {(row.recipe, row.name): row for row in recipes.rows()}
    transferred = row_times.training_of(rows["released-code", "SGL-PC-DARTS-ImageNet"])
    assert (transferred.data.dataset, transferred.training.batch_size, transferred.training.epochs) == (
        "imagenet",
        1024,
        250,
    )
    own = row_times.training_of(rows["paper", "P-DARTS"])
    assert (own.data.dataset, own.training.batch_size, own.training.drop_path) == ("cifar10", 128, 0.3)


# What is kept.


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, an idle machine, and searches and trainings that take as long as they have epochs."""
    monkeypatch.setattr(row_times, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(row_times, "machine_is_busy", lambda: False)

    def search_time(config: Config, meter: PassMeter) -> float:
        meter.lines["network"] = float
        meter.tell("a search")
        return float(config.search.epochs)

    def training_time(config: Config, meter: PassMeter) -> float:
        meter.tell("a training")
        return float(config.training.epochs)

    monkeypatch.setattr(row_times, "search_time", search_time)
    monkeypatch.setattr(row_times, "training_time", training_time)
    return tmp_path / "cache" / FILE


ROWS = recipes.rows()[:2]
FOUND = [RowTime(50.0, 600.0)] * 2


def timed() -> tuple[list[RowTime], int]:
    """The times of two rows, and how many searches and trainings were measured for them."""
    told: list[str] = []
    return row_times.row_times(ROWS, told.append), len(told)


def test_times_are_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed() == (FOUND, 3)  # both have one training
    assert timed() == (FOUND, 0)
    changed = json.loads(kept.read_text())
    changed["seconds"] = dict.fromkeys(changed["seconds"], 7.0)
    kept.write_text(json.dumps(changed))
    assert timed() == ([RowTime(7.0, 7.0)] * 2, 0)
    monkeypatch.setattr(row_times, "cores", lambda: 77)
    assert timed() == (FOUND, 3)  # another machine


def test_each_device_has_its_own_times(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed() == (FOUND, 3)
    asked: list[str] = []

    def choose(name: str, _before: str | None = None) -> torch.device:
        asked.append(name)
        return torch.device("lazy")

    monkeypatch.setattr(machine, "choose_device", choose)
    told: list[str] = []
    row_times.row_times(ROWS, told.append, "cuda:1")
    assert (set(asked), len(told)) == ({"cuda:1"}, 3)
    assert len(json.loads(kept.read_text())["seconds"]) == 6


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "",
        lambda text: text[:-30],
        lambda _: "[1, 2]",
        lambda _: "[" * 100_000,
        lambda text: text.replace('"schema": 1', '"schema": 2'),
        lambda text: text.replace("50.0", "NaN"),
        lambda text: text.replace("50.0", "-1.0"),
        lambda text: text.replace("50.0", '"soon"'),
        lambda text: text + " " * 2_000_000,
    ],
)
def test_a_damaged_file_of_times_is_measured_again(kept: Path, damage: Callable[[str], str]) -> None:
    assert timed() == (FOUND, 3)
    whole = kept.read_text()
    kept.write_text(damage(whole))
    assert timed() == (FOUND, 3)
    assert kept.read_text() == whole


def test_no_time_of_a_busy_machine_is_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_times, "machine_is_busy", lambda: True)
    assert timed() == (FOUND, 3)
    assert not kept.exists()


def test_a_cache_folder_that_cannot_be_written_is_no_reason_to_fail(kept: Path) -> None:
    kept.parent.write_text("a file")
    assert timed() == (FOUND, 3)


def test_a_row_that_does_not_fit_into_memory_has_no_time(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(_config: Config, _meter: PassMeter) -> float:
        raise OutOfMemory("no room")

    monkeypatch.setattr(row_times, "training_time", too_large)
    assert timed()[0] == [RowTime(50.0, None)] * 2
    assert json.loads(kept.read_text())["seconds"].keys()  # of the searches


def test_a_machine_is_busy_if_others_use_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_times, "cores", lambda: 4)
    for load, busy in ((0.0, False), (2.0, False), (2.1, True)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert row_times.machine_is_busy() is busy
