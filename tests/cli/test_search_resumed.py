"""Runs that are resumed although something is missing, damaged or changed: the truth is said, and nothing is lost."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from smallgroup.config import load
from smallgroup.runner import read_rows
from tests.cli.test_search_command import SMALL, Captured, refused, run
from tests.data.makers import class_folders


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "finished"
    from smallgroup.cli import main  # noqa: PLC0415

    assert main(["search", *SMALL, "--learners=1", "--out", str(out)]) == 0
    return out


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def files(folder: Path) -> dict[str, bytes]:
    timed = (".lock", "times.jsonl", "report.html")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name not in timed}


def same_but_for_time(left: Path, right: Path) -> None:
    mine, theirs = files(left), files(right)
    results = [json.loads(each.pop("result.json")) for each in (mine, theirs)]
    for result in results:
        del result["seconds"], result["peak_memory_mb"]
    assert results[0] == results[1]
    assert mine == theirs


def test_a_config_that_is_gone_is_written_again(finished: Path, copy: Path, capsys: Captured) -> None:
    (copy / "config.yaml").unlink()
    (copy / "result.json").unlink()
    code, _, log = run(capsys, *SMALL, "--learners=1", "--out", str(copy), "--resume")
    assert code == 0
    assert "nothing to resume" not in log
    assert "resumed after step 6" in log
    same_but_for_time(finished, copy)


def test_checkpoints_that_are_gone_are_told_of(finished: Path, copy: Path, capsys: Captured) -> None:
    shutil.rmtree(copy / "checkpoints")
    (copy / "result.json").unlink()
    code, _, log = run(capsys, "--out", str(copy), "--resume")
    assert code == 0
    assert f"warning: there is no checkpoint in {copy}: the run starts again, with empty metrics\n" in log
    same_but_for_time(finished, copy)


def test_a_genotype_that_is_gone_is_made_again(finished: Path, copy: Path, capsys: Captured) -> None:
    (copy / "genotype.json").unlink()
    assert run(capsys, "--out", str(copy), "--resume")[0] == 0
    same_but_for_time(finished, copy)


@pytest.mark.parametrize(
    "change",
    [
        {"validation_loss": "x"},
        {"group": []},
        {"genotype": None},
        {"genotype": "|none~0|"},
        {"retained": 7},
        {"learners": 2},
        {"space": "mars"},
    ],
)
def test_a_result_that_cannot_be_is_made_again(
    finished: Path, copy: Path, capsys: Captured, change: dict[str, Any]
) -> None:
    result = json.loads((copy / "result.json").read_text())
    (copy / "result.json").write_text(json.dumps({**result, **change}))
    code, _, log = run(capsys, "--out", str(copy), "--resume")
    assert code == 0
    assert "is finished" not in log
    same_but_for_time(finished, copy)


def test_metrics_that_are_too_short_are_refused(copy: Path, capsys: Captured) -> None:
    (copy / "result.json").unlink()
    (copy / "metrics.jsonl").write_bytes(b"")
    assert "so start the run again in another folder" in refused(capsys, "--out", str(copy), "--resume")


def test_other_images_are_refused(tmp_path: Path, capsys: Captured) -> None:
    images, out = class_folders(tmp_path / "images", 40), tmp_path / "run"
    arguments = [f"--dataset=folder:{images}", "--set=data.size=8", "--set=space.channels=2", "--learners=1"]
    arguments += ["--hypergradient=first-order", "--set=search.epochs=1", "--set=search.steps_per_epoch=1"]
    sizes = "--set=search.batch_size={train: 8, unlabeled: 8, validation: 8}"
    assert run(capsys, *arguments, sizes, "--out", str(out))[0] == 0
    (out / "result.json").unlink()
    assert run(capsys, "--out", str(out), "--resume")[0] == 0
    (out / "result.json").unlink()
    next(path for path in sorted(images.rglob("*")) if path.is_file()).unlink()
    told = refused(capsys, "--out", str(out), "--resume")
    assert "a run must be resumed on the images it started with, but images were changed, added" in told


@pytest.mark.slow
def test_a_time_budget_is_measured_once_for_all_seeds(tmp_path: Path, capsys: Captured) -> None:
    arguments = [*SMALL, "--learners=1", "--seeds=1-2", "--set=search.epochs=5000", "--out", str(tmp_path)]
    code, text, log = run(capsys, *arguments, "--time-budget", "4s", "--json")
    assert code == 0
    assert log.count("taking a few steps") == 1
    steps = {one["steps"] for one in json.loads(text)["runs"]}
    assert len(steps) == 1
    shutil.rmtree(tmp_path / "seed-2")
    code, text, _ = run(capsys, "--seeds=1-2", "--out", str(tmp_path), "--resume", "--json")
    assert code == 0
    assert {one["steps"] for one in json.loads(text)["runs"]} == steps
    assert (
        len(list(read_rows(tmp_path / "seed-2" / "metrics.jsonl"))) == load(tmp_path / "seeds.yaml")["search"]["epochs"]
    )


def test_aliases_in_a_config_are_refused(tmp_path: Path, capsys: Captured) -> None:
    lines = ["a0: &x0 [1]"] + [f"a{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 10)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join([*lines, "data: {dataset: *x9}"]))
    assert "a config must be YAML, but" in refused(capsys, "--config", str(file), "--out", str(tmp_path / "run"))
