"""`smallgroup mutual`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer.main

from smallgroup.cli.app import app
from smallgroup.config import load
from smallgroup.runner import read_rows
from tests.cli.test_search_command import Captured
from tests.cli.test_train_command import TINY, refused, run

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_1x1~2|"
TIMES = ("seconds", "peak_memory_mb")


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    learners = [{key: value for key, value in one.items() if key not in TIMES} for one in result["learners"]]
    return {**{key: value for key, value in result.items() if key not in TIMES}, "learners": learners}


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def test_the_options_are_these() -> None:
    group: Any = typer.main.get_command(app)
    found = {name for each in group.commands["mutual"].params for name in each.opts if name.startswith("--")}
    options = "--allow-drift --config --data-root --dataset --device --json --learners --on-nonfinite --out --recipe"
    options += " --resume --seed --set --skip-bad-images"
    assert found == {*options.split(), "--weight"}


def test_networks_together_and_alone(tmp_path: Path, capsys: Captured) -> None:
    """Two spaces; a table, two folders, and the first learner alone is that of `smallgroup train`."""
    out, seed = tmp_path / "run", "--seed=3"
    code, text, log = run(capsys, "mutual", "PDARTS", CELL, *TINY, seed, "--weight=0.5", "--out", str(out))
    assert code == 0
    together, alone = read(out), read(out / "alone")
    assert (together["weight"], alone["weight"]) == (0.5, 0.0)
    lines = [line.split() for line in text.splitlines()]
    for k, name in enumerate(("PDARTS", "nas-bench-201")):
        one, other = (result["learners"][k] for result in (together, alone))
        errors = [one["test_error"], other["test_error"]]
        difference = f"{errors[0] - errors[1]:+.2f}"
        expected = [str(k), name, f"{one['parameters']:,}", f"{errors[0]:.2f}", f"{errors[1]:.2f}", difference]
        assert expected in lines
        assert f"learner {k}: {one['parameters']:,} parameters, {one['multiply_adds']:,} multiply-adds" in log
        assert (out / f"learner-{k}" / "model.safetensors").exists()
    means = [result["mean"]["test_error"] for result in (together, alone)]
    assert ["mean", f"{means[0]:.2f}", f"{means[1]:.2f}", f"{means[0] - means[1]:+.2f}"] in lines
    assert "test images were looked at once, after the last epoch" in text
    assert text.rstrip().endswith(f"everything is in {out}")
    assert "together: 2 learners, weight 0.5" in log
    assert "alone: 2 learners, weight 0" in log
    assert "learner 1: loss" in log
    assert "divergence" in log
    assert run(capsys, "train", "PDARTS", *TINY, seed, "--out", str(tmp_path / "train"))[0] == 0
    same = ("test_error", "test_error_top5", "train_error", "parameters", "multiply_adds", "genotype")
    trained = read(tmp_path / "train")
    assert {key: alone["learners"][0][key] for key in same} == {key: trained[key] for key in same}
    weights = [folder / "model.safetensors" for folder in (tmp_path / "train", out / "alone" / "learner-0")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_finished_run_and_one_that_lost_its_control(tmp_path: Path, capsys: Captured) -> None:
    where = ["--out", str(tmp_path), "--json"]
    code, text, _ = run(capsys, "mutual", CELL, "--learners=3", "--weight=0.7", *TINY, *where)
    assert code == 0
    found = json.loads(text)
    assert found == {"mutual": read(tmp_path), "alone": read(tmp_path / "alone"), "run": str(tmp_path)}
    assert len(found["mutual"]["learners"]) == 3
    # Neither weight nor number nor config need be given again.
    code, text, log = run(capsys, "mutual", CELL, *where, "--resume")
    assert (code, json.loads(text)) == (0, found)
    assert log.count("is finished; there is nothing to resume\n") == 2
    shutil.rmtree(tmp_path / "alone")
    code, text, log = run(capsys, "mutual", CELL, *where, "--resume")
    assert code == 0
    assert f"there is nothing to resume in {tmp_path / 'alone'}; starting a new run" in log
    again = json.loads(text)
    assert again["mutual"] == found["mutual"]
    assert timeless(again["alone"]) == timeless(found["alone"])
    assert load(tmp_path / "alone" / "config.yaml")["training"]["epochs"] == 2
    for words, sentence in (
        (["--weight=1"], "weight was 0.7 and is 1.0"),
        (["--learners=2"], "learners.2 was"),
        (["--seed=1"], "seed was 0 and is 1"),
        (["--set=training.epochs=9"], "training.epochs was 2 and is 9"),
    ):
        assert sentence in refused(capsys, "mutual", CELL, "--out", str(tmp_path), "--resume", *words)
    assert "must be empty or resumed" in refused(capsys, "mutual", CELL, "--learners=3", *TINY, *where)


def test_a_run_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of an epoch of the control, after the networks were trained together."""
    from smallgroup.phases.training import MutualJob  # noqa: PLC0415

    words = ["mutual", CELL, "PDARTS", *TINY]
    assert run(capsys, *words, "--out", str(tmp_path / "whole"))[0] == 0
    original = MutualJob.advance

    def advance(self: MutualJob) -> Any:
        if self.peers.weight == 0 and self.step == 4:
            raise ArithmeticError("killed")
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(MutualJob, "advance", advance)
        assert run(capsys, *words, "--out", str(tmp_path / "part"))[0] == 1
    assert not (tmp_path / "part" / "alone" / "result.json").exists()
    code, _, log = run(capsys, "mutual", CELL, "PDARTS", "--out", str(tmp_path / "part"), "--resume")
    assert code == 0
    assert "resumed after step 4" in log
    for inner in ("", "alone"):
        whole, part = tmp_path / "whole" / inner, tmp_path / "part" / inner
        assert timeless(read(whole)) == timeless(read(part))
        assert list(read_rows(whole / "metrics.jsonl")) == list(read_rows(part / "metrics.jsonl"))
        for k in range(2):
            models = [folder / f"learner-{k}" / "model.safetensors" for folder in (whole, part)]
            assert models[0].read_bytes() == models[1].read_bytes()


def test_without_weight_there_is_nothing_to_compare_with(tmp_path: Path, capsys: Captured) -> None:
    code, text, _ = run(capsys, "mutual", CELL, CELL, *TINY, "--weight=0", "--out", str(tmp_path))
    assert code == 0
    assert "With weight 0 no network learns from another" in text
    assert not (tmp_path / "alone").exists()


def test_a_model_of_a_learner_can_be_used(tmp_path: Path, capsys: Captured) -> None:
    assert run(capsys, "mutual", CELL, "--learners=2", *TINY, "--weight=0", "--out", str(tmp_path))[0] == 0
    assert run(capsys, "export", str(tmp_path / "learner-1"), "--format=pt2")[0] == 0
    assert run(capsys, "describe", str(tmp_path / "learner-1"))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([CELL], "2 to 64 networks can learn together, but got 1"),
        ([CELL, "--learners=1"], "2 <= learners <= 64 must hold, but got learners=1"),
        ([CELL, CELL, "--learners=3"], "the number of learners can be set for one cell only, but got 3 and 2 cells"),
        ([CELL, "--learners=two"], "a whole number is needed, but got 'two'"),
        ([CELL, CELL, "--weight=-1"], "0 <= weight < infinity must hold, but got weight=-1.0"),
        ([CELL, CELL, "--weight=.nan"], "0 <= weight < infinity must hold, but got weight=nan"),
        ([CELL, CELL, "--weight=nan"], "a number is needed, but got 'nan'"),
        ([CELL, CELL, "--weight=much"], "a number is needed, but got 'much'"),
        (["DARTS_V2", "DARTS_V3"], "did you mean"),
        (["DARTS_V2", "PDARTS", "--resume"], "--resume needs the folder of the run, but --out is not given"),
        (["DARTS_V2", "PDARTS", "--set", "training.epoch=1"], "the nearest is training.epochs"),
        (["DARTS_V2", "PDARTS", "--dataset", "mnist"], "data must be one of"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], sentence: str, capsys: Captured) -> None:
    assert sentence in refused(capsys, "mutual", *arguments)
