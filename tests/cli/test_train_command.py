"""`smallgroup train` and `smallgroup run`."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main

from smallgroup import kernels
from smallgroup.cli import early, main
from smallgroup.cli.app import app
from smallgroup.cli.wanted import Wanted
from smallgroup.config import keys_for_training, load
from smallgroup.runner import read_rows
from tests.cli.test_search_command import SMALL, Captured
from tests.data.makers import class_folders

TINY = [
    "--set=training.epochs=2",
    "--set=training.steps_per_epoch=3",
    "--set=training.network={channels: 4, cells: 3, cells_per_stage: 1, auxiliary: none}",
]


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    return code, *capsys.readouterr()


def refused(capsys: Captured, *arguments: str) -> str:
    code, out, error = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    return error.removeprefix("error: ")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            "train",
            "--allow-drift --config --controls --data-root --dataset --device --json --lambda --learners "
            "--max-flash-kb --max-latency-ms --max-multiply-adds --max-parameters --max-ram-kb --on-nonfinite --out "
            "--recipe --resume --seed --set --size --skip-bad-images --tensorboard --time-budget --track-test "
            "--unlabeled",
        ),
        (
            "run",
            "--allow-drift --answer --baselines --config --controls --data-root --dataset --device --hypergradient "
            "--json --lambda --learners --max-flash-kb --max-latency-ms --max-multiply-adds --max-parameters "
            "--max-ram-kb --method --on-nonfinite --out --recipe --resume --seed --set --size --skip-bad-images "
            "--space --tensorboard --time-budget --track-test --train-learners --unlabeled",
        ),
    ],
)
def test_the_options_are_these(command: str, options: str) -> None:
    group: Any = typer.main.get_command(app)
    found = {name for each in group.commands[command].params for name in each.opts if name.startswith("--")}
    assert found == set(options.split())


def test_a_published_cell_is_trained(tmp_path: Path, capsys: Captured) -> None:
    code, text, log = run(capsys, "train", "PDARTS", *TINY, "--out", str(tmp_path), "--seed", "3", "--track-test")
    assert code == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert f"test error %       {result['test_error']:.2f}\n" in text
    assert "looked at after every epoch" in text
    assert "best test error %" in text
    assert text.rstrip().endswith(f"everything is in {tmp_path}")
    assert "data: digits, 1,367 training and 359 test images" in log
    assert f"network: {result['parameters']:,} parameters, {result['multiply_adds']:,} multiply-adds" in log
    assert f"kernels: {kernels.in_words(kernels.best())}" in log.replace("\n", " ")
    assert "epoch 2/2  step 6/6" in log
    assert {"loss", "train_error", "lr", "test_error"} <= next(read_rows(tmp_path / "metrics.jsonl")).keys()
    code, text, log = run(capsys, "train", "PDARTS", "--out", str(tmp_path), "--resume", "--json")
    assert (code, log) == (0, f"the run in {tmp_path} is finished; there is nothing to resume\n")
    assert json.loads(text) == {**result, "run": str(tmp_path)}
    assert "training.epochs was 2 and is 9" in refused(
        capsys, "train", "PDARTS", "--out", str(tmp_path), "--resume", "--set", "training.epochs=9"
    )
    assert "genotype" in refused(capsys, "train", "DARTS_V1", "--out", str(tmp_path), "--resume")


def test_the_whole_job_and_its_resumption(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "run"
    code, text, _ = run(capsys, "run", *SMALL, *TINY, "--out", str(folder), "--seed", "4", "--learners=1")
    assert code == 0
    lines = [line.split("  ")[0] for line in text.splitlines() if line]
    assert [lines.count(name) for name in ("the network found", "resnet", "random", "all-3x3")] == [1, 1, 1, 0]
    found = json.loads((folder / "result.json").read_text())
    results = {
        name: json.loads((folder / name / "result.json").read_text()) for name in ("training", "resnet", "random")
    }
    own = results["training"]
    assert own["genotype"] == found["genotype"]
    assert (own["seed"], own["epochs"], own["steps"]) == (4, 2, 6)
    for result in results.values():
        assert f"{result['test_error']:.2f}" in text
        assert f"{result['parameters']:,}" in text
    verdicts = json.loads((folder / "verdict.json").read_text())["verdicts"]
    assert [verdict["baseline"] for verdict in verdicts] == ["resnet", "random"]
    for verdict in verdicts:
        assert f"\n{verdict['sentence']}\n" in text
    assert text.rstrip().endswith(f"Everything is in {folder}")
    # Without its last part, and without being told again what it was.
    shutil.rmtree(folder / "random")
    code, text, _ = run(capsys, "run", "--out", str(folder), "--resume", "--json")
    assert code == 0
    again = json.loads(text)
    assert again.keys() == {"search", "training", "baselines", "verdict", "run"}
    assert (again["search"], again["training"], again["verdict"]) == (found, own, verdicts)
    assert again["baselines"]["resnet"] == results["resnet"]
    assert without_time(again["baselines"]["random"]) == without_time(results["random"])


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("vgg", "a baseline must be one of none, resnet, random, all-3x3, but got 'vgg'"),
        ("resnet,none", "--baselines must be none or different names, but got 'resnet,none'"),
        ("random,random", "--baselines must be none or different names, but got 'random,random'"),
        ("", "a baseline must be one of"),
    ],
)
def test_baselines_that_there_are_not(names: str, sentence: str, tmp_path: Path, capsys: Captured) -> None:
    assert sentence in refused(capsys, "run", "--baselines", names, "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_the_names_of_baselines_are_read() -> None:
    assert early.baselines_of(None) is None
    assert early.baselines_of("none") == ()
    assert early.baselines_of("all-3x3, resnet") == ("resnet", "all-3x3")


def test_the_cell_of_a_search_is_trained_with_its_data(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    assert run(capsys, "search", *SMALL, "--learners=2", "--out", str(out), "--seed=7")[0] == 0
    code, text, _ = run(capsys, "train", str(out), *TINY, "--json")
    assert code == 0
    result = json.loads(text)
    assert result["run"] == str(out / "training")
    assert result["seed"] == 7
    assert result["genotype"] == json.loads((out / "result.json").read_text())["genotype"]
    assert load(out / "training" / "config.yaml")["data"]["labeled_fraction"] == 0.1
    code, text, log = run(capsys, "train", str(out), "--resume", "--json")
    assert (code, json.loads(text)) == (0, result)
    assert "is finished; there is nothing to resume" in log


def test_a_training_within_limits_is_begun_resumed_and_told(tmp_path: Path, capsys: Captured) -> None:
    """The limits are part of its config: they need not be given again, and the result says what they cost."""
    out, small = tmp_path / "run", tmp_path / "small"
    assert run(capsys, "search", *SMALL, "--learners=1", "--out", str(out), "--seed=7")[0] == 0
    large = json.loads(run(capsys, "train", str(out), *TINY, "--json", "--out", str(tmp_path / "large"))[1])
    limit = large["parameters"] - 1
    code, text, log = run(capsys, "train", str(out), *TINY, "--max-parameters", str(limit), "--out", str(small))
    assert code == 0, log
    result = json.loads((small / "result.json").read_text())
    assert result["genotype"] == large["genotype"]
    assert result["parameters"] <= limit
    training = load(small / "config.yaml")["training"]
    assert (training["max_parameters"], training["network"]["channels"]) == (limit, 3)
    assert result["choice"] == (
        f"channels=3 and cells_per_stage=1 fit {limit:,} parameters: {result['parameters']:,} parameters and "
        f"{result['multiply_adds']:,} multiply-adds"
    )
    assert result["choice"] in text
    (small / "result.json").unlink()
    code, text, log = run(capsys, "train", str(out), "--out", str(small), "--resume", "--json")
    assert code == 0, log
    assert without_time(json.loads(text)) == {**without_time(result), "run": str(small)}


def test_a_consensus_is_trained_and_told(tmp_path: Path, capsys: Captured) -> None:
    """Its cell is that of the search for every command."""
    out = tmp_path / "run"
    answer = ["--set=search.answer=consensus", "--set=search.architecture={travel: null, lr: 0.5}"]
    code, text, log = run(capsys, "search", *SMALL, *answer, "--learners=2", "--out", str(out), "--seed=7")
    assert code == 0, log
    assert text.startswith("consensus: the cell is derived from the mean of the scores of 2 learners")
    assert "answer: consensus: the cell derived from the mean of the learners' scores\n" in log
    assert re.search("^consensus +darts", text, re.MULTILINE)
    found = json.loads((out / "result.json").read_text())
    assert (found["answer"]["rule"], found["answer"]["learner"]) == ("consensus", None)
    trained = json.loads(run(capsys, "train", str(out), *TINY, "--json")[1])
    assert (trained["genotype"], trained["choice"]) == (found["genotype"], None)
    assert re.search("^answer +consensus$", run(capsys, "show", str(out))[1], re.MULTILINE)


def without_time(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in ("seconds", "peak_memory_mb")}


def test_baselines_are_within_the_limits_too(tmp_path: Path, capsys: Captured) -> None:
    limits = ["--max-parameters", "1500", "--baselines", "all-3x3"]
    code, text, log = run(capsys, "run", *SMALL, *TINY, *limits, "--learners=1", "--out", str(tmp_path), "--seed=1")
    assert code == 0, log
    own, other = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("training", "all-3x3"))
    assert max(own["parameters"], other["parameters"]) <= 1500
    assert own["choice"] in text
    code, again, _ = run(capsys, "run", "--out", str(tmp_path), "--resume")
    assert (code, again) == (0, text)


def test_another_dataset_or_recipe_is_taken_at_its_word(tmp_path: Path, capsys: Captured) -> None:
    """What the recipe of the search said of its own data and sizes is not carried along; what the user gave is."""
    photos, out = class_folders(tmp_path / "photos", 12), tmp_path / "run"
    given = ["--dataset", f"folder:{photos}", "--set=data.labeled_fraction=0.9", "--set=training.momentum=0.8"]
    given.append("--size=24")
    assert run(capsys, "search", *SMALL[1:], *given, "--learners=1", "--out", str(out))[0] == 0
    wanted = Wanted({}, (), None, None, None, None, resume=False, allow_drift=False)

    def resolved(**options: Any) -> Any:
        base = keys_for_training(out, options)
        return replace(wanted, options=options, base=base).resolved({"space": "nas-bench-201"})

    same = resolved()
    assert (same.data.dataset, same.data.size, same.data.labeled_fraction) == (f"folder:{photos}", 24, 0.9)
    assert (same.recipe, same.training.momentum) == ("quick", 0.8)
    paper = resolved(recipe="paper")
    assert (paper.data.size, paper.data.labeled_fraction) == (24, 0.9)
    assert (paper.training.epochs, paper.training.momentum) == (600, 0.9)
    other = resolved(dataset="imagenet")
    assert (other.data.dataset, other.data.labeled_fraction, other.training.momentum) == ("imagenet", None, 0.8)
    assert other.data.size == 32  # of the recipe quick, for that data
    imagenet = resolved(dataset="imagenet", recipe="paper")
    assert (imagenet.data.size, imagenet.training.lr, imagenet.training.schedule) == (None, 0.5, "linear")


def test_the_folder_of_a_training_is_no_search(tmp_path: Path, capsys: Captured) -> None:
    assert run(capsys, "train", "DARTS_V2", *TINY, "--out", str(tmp_path))[0] == 0
    sentence = refused(capsys, "train", str(tmp_path), *TINY, "--out", str(tmp_path / "more"))
    assert "train needs a cell or the folder of a search, but" in sentence


def test_a_time_budget_of_less_than_a_step(capsys: Captured, tmp_path: Path) -> None:
    code, out, log = run(capsys, "train", "DARTS_V2", *TINY, "--time-budget", "0.01s", "--out", str(tmp_path / "run"))
    assert (code, out) == (2, "")
    assert "a time budget must be enough for a step" in log.splitlines()[-1]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["DARTS_V3"], "did you mean"),
        (
            ["DARTS_V2", "--max-parameters", "1000"],
            "a network must have at most 1,000 parameters, but with channels=2 and cells=5 this one still has",
        ),
        (["DARTS_V2", "--max-multiply-adds", "0"], "training.max_multiply_adds: Input should be greater than or equal"),
        (["DARTS_V2", "--set", "training.foo=1"], "no key 'training.foo'; the nearest is training."),
        (["DARTS_V2", "--max-parameters", "many"], "a whole number is needed, but got 'many'"),
        (["DARTS_V2", "--set", "training.epoch=1"], "no key 'training.epoch'; the nearest is training.epochs"),
        (["DARTS_V2", "--resume"], "--resume needs the folder of the run, but --out is not given"),
        (["DARTS_V2", "--dataset", "mnist"], "data must be one of"),
        (["DARTS_V2", "--set", "training.precision=int8"], "training.precision: Input should be 'float32'"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], sentence: str, capsys: Captured) -> None:
    assert sentence in refused(capsys, "train", *arguments)
