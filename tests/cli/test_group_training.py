"""`smallgroup train --learners` and `smallgroup run --train-learners`, with their controls."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import smallgroup
from smallgroup.config import load_own, resolve
from smallgroup.controls import FOLDER, configs_of
from smallgroup.phases.training import GroupCells, TrainResult
from smallgroup.phases.training.taught import TaughtTrainee
from smallgroup.runner import read_rows
from smallgroup.spaces.genotypes import read
from tests.cli.test_search_command import SMALL, Captured
from tests.cli.test_train_command import refused, run, without_time
from tests.phases.training.models import BENCHMARK

CELL, OTHER = str(BENCHMARK), "|none~0|+|nor_conv_3x3~0|skip_connect~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_1x1~2|"
SETTINGS = {
    "epochs": 2,
    "steps_per_epoch": 2,
    "batch_size": 8,
    "network": {"channels": 4, "cells_per_stage": 1, "stages": 2},
}
TINY = [
    *(f"--set=training.{key}={value}" for key, value in SETTINGS.items() if key != "network"),
    "--set=training.network={channels: 4, cells_per_stage: 1, stages: 2}",
]


def keys(**changes: Any) -> dict[str, Any]:
    return {"unlabeled": "split", "space": "nas-bench-201", "training": {**SETTINGS, **changes}}


def timeless(result: TrainResult) -> dict[str, Any]:
    found: dict[str, Any] = without_time(result.to_dict())
    return found


def test_a_mix_of_cells_with_controls(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    given = ["train", CELL, OTHER, *TINY, "--unlabeled=train", "--lambda=0.5", "--seed=3", "--out", str(out)]
    code, text, log = run(capsys, *given, "--controls")
    assert code == 0, log
    assert "group: 2 networks, lambda 0.5, labels of peers on" in log
    result = json.loads((out / "result.json").read_text())
    losses = [one["validation_loss"] for one in result["group"]]
    assert result["retained"] == losses.index(min(losses))
    assert [one["genotype"] for one in result["group"]] == [CELL, OTHER]
    kept = result["group"][result["retained"]]
    for name in ("test_error", "genotype", "parameters", "train_error"):
        assert kept[name] == result[name]
    assert str(read(out / "genotype.json")[0]) == kept["genotype"]
    last = list(read_rows(out / "metrics.jsonl"))[-2:]
    assert [row["validation_loss"] for row in last] == losses
    assert {"v_loss", "taught_loss", "lambda"} <= last[0].keys()
    assert smallgroup.load(out).classes[0] == "0"
    page = (out / "report.html").read_text()
    assert "Networks" in page
    assert "learner 1" in page
    # The controls: the same networks without peers, and one network for as many passes.
    folders = {name: out / FOLDER / name for name in ("labels-alone", "self-taught", "one-network")}
    configs = {name: load_own(folder / "config.yaml")["training"] for name, folder in folders.items()}
    assert [(one["group"]["lambda"], one["group"]["targets"]) for one in configs.values()] == [
        (0.0, "peers"),
        (0.5, "own"),
        (0.0, "peers"),
    ]
    assert configs["one-network"]["group"]["learners"] == 1
    assert configs["one-network"]["epochs"] == round(2 * 2 * 10 / 3)
    shown = [line.split() for line in text.splitlines()]
    for name, folder in {"group": out, **folders}.items():
        own = TrainResult.read(folder)
        assert own is not None
        (row,) = [words for words in shown if words and words[0] == name and words[-1] != "passes"][:1]
        assert row[1] == f"{own.test_error:.2f}"
    # Resumed without a control, and without being told again what it was.
    before = TrainResult.read(folders["self-taught"])
    shutil.rmtree(folders["self-taught"])
    code, text, _ = run(capsys, "train", CELL, OTHER, "--out", str(out), "--resume", "--controls", "--json")
    assert code == 0
    again = json.loads(text)
    assert {**result, "run": str(out)} == {name: value for name, value in again.items() if name != "controls"}
    assert [arm["name"] for arm in again["controls"]] == list(folders)
    assert before is not None
    assert without_time(again["controls"][1]["result"]) == timeless(before)
    passes = [arm["passes"] for arm in again["controls"]]
    assert passes == [2 * 3 * 8 * 4, 2 * 10 * 8 * 4, 3 * 8 * 2 * 13]
    assert "cells.1" in refused(capsys, "train", CELL, CELL, "--out", str(out), "--resume")


@pytest.mark.parametrize("step", [1, 2])
def test_a_group_that_was_interrupted_ends_with_the_same_bits(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = smallgroup.train(CELL, keys(), learners=2, out=tmp_path / "whole", progress=False)
    steps, original = [0], TaughtTrainee.begin

    def begin(self: TaughtTrainee, *args: Any) -> None:
        steps[0] += 1
        if steps[0] == 2 * step + 2:  # at the second network: the first has begun the step
            raise KeyboardInterrupt
        original(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(TaughtTrainee, "begin", begin)
        with pytest.raises(KeyboardInterrupt):
            smallgroup.train(CELL, keys(), learners=2, out=tmp_path / "part", progress=False)
    part = smallgroup.train(CELL, keys(), learners=2, out=tmp_path / "part", resume=True, progress=False)
    assert timeless(part) == timeless(whole)
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_whole_job_trains_the_cells_of_its_learners(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "run"
    given = ["run", *SMALL, *TINY, "--unlabeled=split", "--learners=2", "--train-learners=2", "--baselines=none"]
    code, text, _ = run(capsys, *given, "--answer=retained", "--controls", "--out", str(folder))
    assert code == 0
    found = json.loads((folder / "result.json").read_text())
    own = json.loads((folder / "training" / "result.json").read_text())
    assert [one["genotype"] for one in own["group"]] == [one["genotype"] for one in found["group"]]
    assert "self-taught" in text
    code, text, _ = run(capsys, "run", "--out", str(folder), "--resume", "--json")
    assert code == 0
    assert [arm["name"] for arm in json.loads(text)["controls"]] == ["labels-alone", "self-taught", "one-network"]
    # The same from the search's folder; of another number of networks, each has the cell that is the answer.
    assert [str(cell) for cell in GroupCells.of([folder], 2).genotypes] == [one["genotype"] for one in found["group"]]
    assert [str(cell) for cell in GroupCells.of([str(folder)], 3).genotypes] == [found["genotype"]] * 3


def test_controls_have_the_passes_of_the_group() -> None:
    config = resolve({**keys(epochs=30), "training": {**SETTINGS, "epochs": 30, "group": {"learners": 3}}})
    made = configs_of(config)
    group, longer = config.training.group, made["one-network"].training
    assert group is not None
    assert longer.group is not None
    assert longer.epochs * longer.group.passes(8) == pytest.approx(30 * group.passes(8), rel=0.02)
    assert [one.data for one in made.values()] == [config.data] * 3


def test_results_and_identities_of_trainings_alone_are_as_before() -> None:
    plain = resolve({"training": SETTINGS})
    assert "group" not in plain.of_training()["training"]
    assert "group" in resolve({"training": {**SETTINGS, "group": {"learners": 2}}}).of_training()["training"]
    alone = smallgroup.train(CELL, {"space": "nas-bench-201", "training": SETTINGS}, progress=False)
    assert not {"group", "retained"} & alone.to_dict().keys()
