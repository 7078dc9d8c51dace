"""Whole runs: search, play-off, training, baselines, verdict; interrupted at every boundary; within a time budget."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import smallgroup
from smallgroup import fitting, pipeline
from smallgroup.baseline_names import BASELINES
from smallgroup.cli import main
from smallgroup.config import Config, load_own, resolve
from smallgroup.jobs import training_data_of
from smallgroup.phases.passes import FORWARD
from smallgroup.phases.search.timing import Part, StepTimes
from smallgroup.phases.training import TrainingJob, TrainResult
from smallgroup.phases.training.size import size_of
from smallgroup.pipeline import LEAST_SHARE, OVERHEAD, PLAY_OFF_SHARE, SEARCH_SHARE, RunResult
from smallgroup.pipeline.parts import RunParts
from smallgroup.runner import read_rows
from smallgroup.runtime import budget as budgets
from smallgroup.runtime import files
from smallgroup.spaces.choices import known_genotype
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.genotypes import from_plain
from smallgroup.statistics.same_images import ImageComparison

Captured = pytest.CaptureFixture[str]
KEYS: dict[str, Any] = {
    "learners": 2,
    "hypergradient": "first-order",
    "data": {"labeled_fraction": 0.1},
    "space": {"name": "nas-bench-201", "channels": 2},
    "search": {
        "epochs": 1,
        "steps_per_epoch": 3,
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 8},
        "answer": "play-off",
    },
    "playoff": {
        "candidates": 3,
        "least_steps": 1,
        "steps_per_search_step": 3,
        "batch_size": 8,
        "network": {"channels": 2, "cells": 3},
    },
    "training": {
        "epochs": 2,
        "steps_per_epoch": 3,
        "batch_size": 8,
        "least_steps": None,
        "validation": 0.0,
        "lr": 0.02,  # so that a few steps make a difference
        "average": 0.0,
        "network": {"channels": 6, "cells": 3, "cells_per_stage": 1},
    },
}
ALL = tuple(BASELINES)
RESNET, ALL_3X3 = (str(known_genotype(name, "nas-bench-201")) for name in ("resnet", "all-3x3"))
STEP = 0.005
"""Seconds of a step of a training, where the clock stands still."""


def keys(**search: Any) -> dict[str, Any]:
    return {**KEYS, "search": {**KEYS["search"], **search}}


def run(out: Path, given: Mapping[str, Any] = KEYS, **options: Any) -> RunResult:
    return smallgroup.run(given, out=out, progress=False, **options)


def untimed(result: RunResult) -> dict[str, Any]:
    """Everything but seconds and memory."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(one) for name, one in value.items() if name not in ("seconds", "peak_memory_mb")}
        return [without(one) for one in value] if isinstance(value, list) else value

    plain: dict[str, Any] = without(result.to_dict())
    return plain


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult]:
    """A whole run with a play-off and every baseline; not to be changed."""
    folder = tmp_path_factory.mktemp("run") / "whole"
    return folder, run(folder, baselines=ALL)


@pytest.fixture
def copied(finished: tuple[Path, RunResult], tmp_path: Path) -> Path:
    shutil.copytree(finished[0], tmp_path / "run")
    return tmp_path / "run"


def test_every_part_has_its_folder(finished: tuple[Path, RunResult]) -> None:
    folder, result = finished
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"checkpoints", "play-off", "training", *ALL}
    assert json.loads((folder / "result.json").read_text()) == result.search.to_dict()
    trainings: dict[str, TrainResult] = {"training": result.training}
    trainings.update({str(name): other for name, other in result.baselines.items()})
    for name, own in trainings.items():
        assert TrainResult.read(folder / name) == own
    assert json.loads((folder / "plan.json").read_text()) == {
        "seconds": None, "clock": "wall", "baselines": list(ALL), "controls": False, "search_seconds": None,
        "measuring_seconds": 0.0, "training": None, "latencies": None,
    }  # fmt: skip
    assert result.search.answer.rule == "play-off"
    assert len(list(read_rows(folder / "play-off" / "metrics.jsonl"))) == 3 + 2
    assert result.training.genotype == result.search.genotype


def test_baselines_have_the_steps_and_the_cost_of_the_network_found(finished: tuple[Path, RunResult]) -> None:
    """A channel more or less would be no nearer."""
    folder, result = finished
    own = result.training
    cells = {"resnet": RESNET, "all-3x3": ALL_3X3}
    base = resolve(load_own(folder / "training" / "config.yaml"))
    images = training_data_of(base).dataset.spec
    for name, other in result.baselines.items():
        assert (other.steps, other.epochs, other.seed) == (own.steps, own.epochs, own.seed) == (6, 2, base.seed)
        assert other.genotype == cells.get(name, other.genotype)
        config = resolve(load_own(folder / name / "config.yaml"))
        network = config.training.network
        assert config.training.model_copy(update={"network": base.training.network}) == base.training
        costs = [
            size_of(
                from_plain(other.space, other.genotype), network.model_copy(update={"channels": channels}), images
            ).multiply_adds
            for channels in range(max(1, network.channels - 1), network.channels + 2)
        ]
        assert other.multiply_adds in costs
        assert min(costs) < own.multiply_adds < max(costs)
    assert result.baselines["random"].genotype not in (own.genotype, *cells.values())


def test_the_verdict_is_that_of_the_test_images(finished: tuple[Path, RunResult]) -> None:
    folder, result = finished
    assert any(one.comparison is not None and one.comparison.difference for one in result.comparisons)
    written = json.loads((folder / "verdict.json").read_text())["verdicts"]
    assert [one["baseline"] for one in written] == list(ALL)
    for one, comparison in zip(written, result.comparisons, strict=True):
        other = result.baselines[comparison.baseline]
        assert comparison.comparison is not None
        assert result.training.test_error is not None
        assert other.test_error is not None
        difference = result.training.test_error - other.test_error
        assert one["difference"] == comparison.comparison.difference == pytest.approx(difference, abs=1e-9)
        assert one["images"] == 359
        assert one["sentence"] == comparison.sentence
        assert (
            f"its test error is {abs(difference):.2f} points {'lower' if difference <= 0 else 'higher'} ("
            in one["sentence"]
        )
    page = (folder / "report.html").read_text()
    assert "No verdict on accuracy" not in page
    assert "The network found is " in page


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (
            (-5.0, -1.0),
            "is better than a ResNet: residual blocks in the same skeleton: its test error is 3.00 points lower",
        ),
        (
            (1.0, 5.0),
            "is worse than a ResNet: residual blocks in the same skeleton: its test error is 3.00 points higher",
        ),
        (
            (-7.0, 1.0),
            "is not told apart from a ResNet: residual blocks in the same skeleton: its test error is 3.00 points",
        ),
    ],
)
def test_the_verdict_in_words(interval: tuple[float, float], words: str) -> None:
    compared = ImageComparison(1200, sum(interval) / 2, interval, 0.01)
    sentence = pipeline.BaselineComparison("resnet", compared).sentence
    low, high = interval
    assert sentence.startswith(f"The network found {words}")
    assert sentence.endswith(f"(95 % interval {low:+.2f} to {high:+.2f}; 1,200 test images, one seed).")
    assert pipeline.BaselineComparison("resnet", None).sentence.endswith("cannot be compared.")


GONE = {
    "before the ResNet": ["resnet", "random", "all-3x3", "verdict.json"],
    "before the last baseline": ["all-3x3", "verdict.json"],
    "before the training": ["training", *ALL, "verdict.json"],
    "after the play-off": ["result.json", "genotype.json", "training", *ALL, "verdict.json"],
    "before the play-off": ["result.json", "genotype.json", "play-off", "training", *ALL, "verdict.json"],
}


@pytest.mark.parametrize("when", GONE)
def test_a_run_that_was_killed_between_its_parts_ends_alike(
    when: str, copied: Path, finished: tuple[Path, RunResult]
) -> None:
    for name in GONE[when]:
        path = copied / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = run(copied, resume=True)
    assert untimed(again) == untimed(finished[1])
    for name in ("training", *ALL):
        for file in ("genotype.json", "model.safetensors", "test.json"):
            assert (copied / name / file).read_bytes() == (finished[0] / name / file).read_bytes()


def test_a_run_that_was_killed_before_its_config_was_written_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan comes first: a config without it would be a run without its time budget and its baselines."""

    def killed(path: Path, text: str) -> None:
        if path.name == "config.yaml":
            raise KeyboardInterrupt
        files.write_whole(path, text)

    with monkeypatch.context() as patched:
        patched.setattr("smallgroup.runner.runner.write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", baselines=())
    assert (tmp_path / "run" / "plan.json").exists()
    again = run(tmp_path / "run", baselines=(), answer="retained", resume=True)
    assert (again.search.answer.rule, again.baselines) == ("retained", {})


@pytest.mark.parametrize("name", ["play-off", "training", *ALL])
def test_links_in_the_place_of_a_part_are_refused(name: str, copied: Path, tmp_path: Path) -> None:
    shutil.move(copied / name, tmp_path / "elsewhere")
    (copied / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=f"{name} .*link"):
        run(copied, resume=True)


DAMAGED = [
    "",
    "{",
    "[]",
    "{}",
    '{"seconds": "long", "clock": "wall", "baselines": []}',
    '{"seconds": 1, "clock": "wall", "baselines": ["vgg"]}',
    '{"seconds": 1, "clock": "sun", "baselines": []}',
    '{"seconds": 1, "clock": "wall", "baselines": [], "training": 5}',
]


@pytest.mark.parametrize("plan", DAMAGED)
def test_a_damaged_plan_is_one_sentence(plan: str, copied: Path, capsys: Captured) -> None:
    (copied / "plan.json").write_text(plan)
    assert main(["run", "--out", str(copied), "--resume"]) == 2
    assert capsys.readouterr() == ("", f"error: {copied / 'plan.json'} must be the plan of a run, but it is not\n")


def test_a_run_keeps_its_baselines(copied: Path, finished: tuple[Path, RunResult]) -> None:
    assert untimed(run(copied, resume=True)) == untimed(finished[1])
    with pytest.raises(ValueError, match=r"keeps its baselines, resnet, random, all-3x3, but got none$"):
        run(copied, resume=True, baselines=())
    with pytest.raises(ValueError, match="a resumed run keeps its answer rule, play-off, but got consensus"):
        run(copied, resume=True, answer="consensus")
    with pytest.raises(ValueError, match="baseline must be one of resnet, random, all-3x3, but got 'vgg'"):
        run(copied, baselines=("vgg",))


def test_a_run_keeps_the_training_that_it_began_with(copied: Path) -> None:
    longer = {**KEYS, "training": {**KEYS["training"], "epochs": 77}}
    with pytest.raises(ValueError, match=r"resumed with the config it started with, but training.epochs was \d+ and"):
        run(copied, longer, resume=True)


def test_trainings_of_unequal_length_do_not_compare(copied: Path, finished: tuple[Path, RunResult]) -> None:
    job = RunParts(copied, resolve(KEYS), resume=True, allow_drift=False, progress=False, terse=True)
    own, other = finished[1].training, finished[1].baselines["resnet"]
    assert job._compared("resnet", own, other) is not None
    assert job._compared("resnet", own, replace(other, steps=9)) is None
    (copied / "resnet" / "test.json").write_text('{"schema": 1, "wrong": [0, 1]}')
    assert job._compared("resnet", own, other) is None


def test_without_baselines_there_is_no_verdict(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "keys.yaml").write_text(resolve(keys(answer="consensus")).to_yaml())
    line = ["run", "--config", str(tmp_path / "keys.yaml"), "--out", str(tmp_path / "run")]
    assert main([*line, "--baselines", "none"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("consensus: the cell is derived from the mean of the scores of 2 learners.")
    assert "\nthe network found " in text
    assert "Every network was trained" not in text
    folders = {path.name for path in (tmp_path / "run").iterdir() if path.is_dir()}
    assert folders == {"checkpoints", "training"}
    assert json.loads((tmp_path / "run" / "verdict.json").read_text()) == {"schema": 1, "verdicts": []}
    assert main(["run", "--out", str(tmp_path / "run"), "--resume", "--baselines", "resnet"]) == 2
    assert "a resumed run keeps its baselines, none, but got resnet" in capsys.readouterr().err


def test_a_resnet_stands_beside_a_network_of_the_darts_space(tmp_path: Path) -> None:
    given = {**KEYS, "learners": 1, "space": {"name": "darts", "channels": 2, "cells": 3}}
    result = run(tmp_path / "run", given, answer="retained", baselines=("resnet",))
    own, other = result.training, result.baselines["resnet"]
    assert (own.space, other.space, other.genotype) == ("darts", "nas-bench-201", RESNET)
    assert other.steps == own.steps
    assert 0.5 < other.multiply_adds / own.multiply_adds < 2
    assert result.comparisons[0].comparison is not None


def test_learners_of_different_spaces_play_off(tmp_path: Path) -> None:
    spaces = [{"name": "darts", "channels": 2, "cells": 3}, KEYS["space"]]
    learners = [{"method": "darts", "space": space} for space in spaces]
    result = run(tmp_path / "run", {**KEYS, "learners": learners}, baselines=())
    assert result.search.answer.candidates is not None
    assert {one.learner for one in result.search.answer.candidates} >= {0, 1}
    assert result.training.genotype == result.search.genotype


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still; the search is measured at 0.1 s, and a step of a training takes 5 ms."""
    monkeypatch.setitem(budgets.CLOCKS, "wall", lambda: 5.0)
    seconds: dict[Part, float] = {(kind, (0, 0)): 0.03 for kind in ("labelers", "weights", "all")}
    monkeypatch.setattr(fitting, "measure", lambda *_: StepTimes({**seconds, ("end", (0, 0)): 0.01}))
    monkeypatch.setattr(TrainingJob, "measure", lambda *_, **__: STEP)


@pytest.mark.usefixtures("still")
def test_a_time_budget_is_shared_out_written_down_and_kept(tmp_path: Path) -> None:
    told: list[str] = []
    out = tmp_path / "run"
    run(out, seconds=1.0, baselines=("resnet",), say=told.append)
    assert json.loads((out / "plan.json").read_text())["seconds"] == 1.0
    assert json.loads((out / "plan.json").read_text())["search_seconds"] == pytest.approx(0.1)
    config = load_own(out / "config.yaml")
    assert config["search"]["epochs"] == 1
    assert config["playoff"]["seconds"] == pytest.approx(PLAY_OFF_SHARE * (OVERHEAD - 0.1), abs=0.001)
    assert told == ["time: search 0 s, play-off 0 s, training 0 s each: the network found and resnet"]
    fitted, whole = steps(out), load_own(out / "training" / "config.yaml")["training"]["steps_per_epoch"]
    assert fitted > 2 * whole
    # Interrupted after the search, before a size was chosen: the rest of the budget is what choosing the length of the
    # search, the search and the play-off did not take of it.
    found, plan = (json.loads((out / name).read_text()) for name in ("result.json", "plan.json"))
    unsized = {**plan, "measuring_seconds": 0.05, "training": None}
    for seconds, left in ((0.4, OVERHEAD - 0.45), (100.0, LEAST_SHARE * OVERHEAD)):
        (out / "plan.json").write_text(json.dumps(unsized))
        (out / "result.json").write_text(json.dumps({**found, "seconds": seconds}))
        shutil.rmtree(out / "training")
        shutil.rmtree(out / "resnet")
        told.clear()
        result = run(out, resume=True, say=told.append)
        assert result.training.steps == result.baselines["resnet"].steps == steps(out)
        # A training gets half of it: whole epochs, or a part of one, and the look at the test images.
        training = resolve(load_own(out / "training" / "config.yaml")).training
        looked = 359 * FORWARD * STEP / training.batch_size
        most = int((left / 2 - looked) / STEP)
        assert steps(out) == (most if most < whole else most // whole * whole)
        assert ["took longer than planned" in one for one in told] == ([True] if seconds == 100.0 else [])
    assert steps(out) < fitted


def steps(out: Path) -> int:
    training = load_own(out / "training" / "config.yaml")["training"]
    found: int = training["epochs"] * training["steps_per_epoch"]
    return found


@pytest.mark.usefixtures("still")
def test_a_training_that_was_not_begun_keeps_the_size_that_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    given = keys(answer="retained")
    whole = run(out, given, seconds=1.0, baselines=())
    expected = (out / "training" / "config.yaml").read_bytes()
    shutil.rmtree(out / "training")
    monkeypatch.setattr(TrainingJob, "measure", lambda *_, **__: 3 * STEP)  # the machine has become busy
    assert untimed(run(out, given, resume=True)) == untimed(whole)
    assert (out / "training" / "config.yaml").read_bytes() == expected


@pytest.mark.usefixtures("still")
def test_a_search_that_was_shortened_is_resumed_at_its_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainingJob, "measure", lambda *_, **__: 3 * STEP)
    given = keys(epochs=500, answer="retained")
    out = tmp_path / "run"
    first = run(out, given, seconds=3.5, baselines=())
    assert first.search.steps == 10
    for name in ("result.json", "training"):
        shutil.rmtree(out / name) if (out / name).is_dir() else (out / name).unlink()
    for again in (run(out, given, resume=True), run(out, given, seconds=3.5, resume=True)):
        assert again.search.steps == first.search.steps


@pytest.mark.usefixtures("still")
def test_the_command_tells_how_the_time_is_shared_and_baselines_have_the_steps(
    tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "keys.yaml").write_text(resolve(KEYS).to_yaml())
    line = ["run", "--config", str(tmp_path / "keys.yaml"), "--out", str(tmp_path / "run"), "--baselines=random"]
    assert main([*line, "--time-budget=1s", "--set=search.answer=retained", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("time: search 0 s, training 0 s each: the network found and random\n")
    found = json.loads(said.out)
    assert found["search"]["steps"] == 3  # it fits: more time makes no search longer
    assert found["search"]["answer"]["rule"] == "retained"  # as it is said, also where quick would play off
    assert found["training"]["steps"] == found["baselines"]["random"]["steps"] == steps(tmp_path / "run") > 6
    # Killed before the random cell was begun: it gets the steps of the other, and not those of the recipe.
    shutil.rmtree(tmp_path / "run" / "random")
    assert main(["run", "--out", str(tmp_path / "run"), "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["baselines"]["random"]["steps"] == found["training"]["steps"]


@pytest.mark.parametrize(
    ("given", "answer", "rule"),
    [
        ({}, None, "play-off"),
        ({"recipe": "paper"}, None, "retained"),
        ({"search": {"answer": "retained"}}, None, "retained"),
        ({"search": {"answer": "consensus"}}, None, "consensus"),
        ({"search": {"answer": "consensus"}}, "retained", "retained"),
    ],
)
def test_quick_plays_off_where_nobody_says_otherwise(
    given: dict[str, Any], answer: Any, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(config: Config, **_: Any) -> None:
        raise AssertionError(config.search.answer)

    monkeypatch.setattr("smallgroup.api.search", search)
    with pytest.raises(AssertionError, match=f"^{rule}$"):
        run(tmp_path / "run", given, answer=answer)


def test_the_help_names_the_share_of_the_search(capsys: Captured) -> None:
    assert main(["run", "--help"]) == 0
    assert f"the search takes at most {100 * SEARCH_SHARE:g} %" in " ".join(capsys.readouterr().out.split())


def test_a_part_is_not_begun_where_the_search_would_not_be_resumed(copied: Path) -> None:
    """Torch without oneDNN, as another machine or a variable would make it."""
    for name in ("training", *ALL):
        shutil.rmtree(copied / name)
    told: list[str] = []
    torch._C._set_mkldnn_enabled(False)
    try:
        with pytest.raises(ValueError, match=r"but these computations round differently: .*stem, .*--allow-drift"):
            run(copied, resume=True)
        assert not (copied / "training" / "config.yaml").exists()
        with pytest.warns(UserWarning, match="may differ from that of an uninterrupted run: these computations"):
            run(copied, resume=True, allow_drift=True, say=told.append)
    finally:
        torch._C._set_mkldnn_enabled(True)


def test_under_limits_in_kilobytes_the_resnet_is_the_largest_that_fits(tmp_path: Path) -> None:
    """And not one of the multiply-adds of the network found, which here is far below the limit."""
    limited = {**keys(answer="retained"), "training": {**KEYS["training"], "max_flash_kb": 40.0}}
    result = run(tmp_path / "run", limited, baselines=("resnet",))
    assert result.resnet_fills_limits
    config = resolve(load_own(tmp_path / "run" / "resnet" / "config.yaml"))
    images, network = training_data_of(config).dataset.spec, config.training.network
    cell = from_plain("nas-bench-201", result.baselines["resnet"].genotype)
    own, wider = (
        size_of(cell, network.model_copy(update={"channels": network.channels + more}), images, memory=True).flash_kb
        for more in (0, 1)
    )
    assert own is not None
    assert wider is not None
    assert own <= 40 < wider


@pytest.mark.usefixtures("still")
def test_that_resnet_gets_the_steps_and_the_time_of_the_network_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def noted(config: Config, *_: Any, **options: Any) -> NetworkConfig:
        asked.append(options)
        return config.training.network.model_copy(update={"channels": 7})

    monkeypatch.setattr("smallgroup.pipeline.parts.network_for_steps", noted)
    given = keys(answer="retained")
    limited = {**given, "training": {**given["training"], "max_flash_kb": 40.0}}
    result = run(tmp_path / "run", limited, seconds=1.0, baselines=("resnet",))
    own = result.training
    assert asked == [{"steps": own.steps, "seconds": own.seconds, "clock": "wall"}]
    assert load_own(tmp_path / "run" / "resnet" / "config.yaml")["training"]["network"]["channels"] == 7
