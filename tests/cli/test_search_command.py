"""`smallgroup search`: what it takes, what it prints, what it leaves behind, how it ends."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from smallgroup.cli import main
from smallgroup.cli import search as command
from smallgroup.cli.app import app
from smallgroup.cli.durations import seconds_of, written
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.config import load, resolve, seeds_of
from smallgroup.phases.search.answer import retained_record
from smallgroup.phases.search.result import LearnerResult, SearchResult
from smallgroup.spaces import SPACES
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.genotypes import to_plain

Captured = pytest.CaptureFixture[str]

SMALL = [
    "--hypergradient=first-order",
    "--set=space.channels=2",
    "--set=data.labeled_fraction=0.1",
    "--set=search.epochs=2",
    "--set=search.steps_per_epoch=3",
    "--set=search.v_warmup=0.1",
    "--set=search.architecture_warmup=0.2",
    "--set=search.batch_size={train: 8, unlabeled: 8, validation: 8}",
]


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = main(["search", *arguments])
    return code, *capsys.readouterr()


def refused(capsys: Captured, *arguments: str) -> str:
    code, out, error = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    return error.removeprefix("error: ")


OPTIONS = """
--allow-drift --config --data-root --dataset --device --help --hypergradient --json --lambda --learners --method
--on-nonfinite --out --recipe --resume --seed --seeds --set --size --skip-bad-images --space --tensorboard
--time-budget --unlabeled
"""


def test_the_options_are_these() -> None:
    """They are what scripts rely on: one that goes or changes its name breaks them."""
    import typer.main  # noqa: PLC0415

    group: Any = typer.main.get_command(app)
    found = {name for each in group.commands["search"].params for name in each.opts} | {"--help"}
    assert found == set(OPTIONS.split())
    commands = "bench describe doctor evaluate export list mutual predict report run search shards show study"
    commands += " train watch"
    assert " ".join(sorted(group.commands)) == commands


def test_a_search_from_the_command_line(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    code, text, log = run(capsys, *SMALL, "--out", str(out), "--learners", "2", "--lambda", "0.5", "--seed", "3")
    assert code == 0
    result = json.loads((out / "result.json").read_text())
    assert (result["lambda"], result["seed"], result["learners"]) == (0.5, 3, 2)
    assert text.startswith(f"learner {result['retained']} is retained")
    assert f"{result['validation_error']:.2f}" in text
    assert text.rstrip().endswith(f"everything is in {out}")
    # Before it starts: data, parameters, steps, travel, memory; then the time; then epoch by epoch.
    assert re.search(r"^data: digits, 10 classes, 8x8 pixels: \d+ training, \d+ validation and \d+ unlabeled", log)
    assert re.search(r"learner 1: darts in nas-bench-201, [\d,]+ parameters", log)
    assert "steps: 6 in 2 epochs: 1 of V alone, then 5 of the architecture too" in log
    assert "travel: Adam at 0.01 can move a logit of the architecture by 0.05 (7.5 in the paper)" in log
    assert re.search(r"memory: about \d+\.\d GB, and [\d.]+ GB are free", log)
    assert re.search(r"^about \d+ s left, judging by the steps so far", log, re.MULTILINE)
    assert re.search(r"epoch 1/2  step 3/6  \d+ s, \d+ s left", log)
    assert re.search(r"learner 0: loss V [\d.]+, loss W .*, validation .*agreement", log)
    assert log.count("    cell |") == 4
    kept = load(out / "config.yaml")
    assert kept["environment"].keys() == {"torch", "cpu", "threads", "kernels", "device"}
    assert resolve(kept).search.lam == 0.5


def test_json_is_all_there_is_on_stdout(tmp_path: Path, capsys: Captured) -> None:
    code, text, _ = run(capsys, *SMALL, "--out", str(tmp_path / "run"), "--json", "--learners=1", "--method=gdas")
    assert code == 0
    found = json.loads(text)
    assert found.pop("run") == str(tmp_path / "run")
    assert found == json.loads((tmp_path / "run" / "result.json").read_text())
    assert (found["method"], found["learners"], found["space"]) == ("gdas", 1, "nas-bench-201")


def test_several_seeds(tmp_path: Path, capsys: Captured) -> None:
    arguments = [*SMALL, "--out", str(tmp_path), "--learners=1", "--seeds", "1-2"]
    code, text, log = run(capsys, *arguments, "--json")
    assert code == 0
    found = json.loads(text)
    assert [one["seed"] for one in found["runs"]] == [1, 2]
    errors = [one["validation_error"] for one in found["runs"]]
    assert found["mean"]["validation_error"] == pytest.approx(sum(errors) / 2)
    assert found["std"]["validation_error"] == pytest.approx(abs(errors[0] - errors[1]) / 2**0.5)
    assert (tmp_path / "seed-2" / "result.json").exists()
    code, text, log = run(capsys, *arguments, "--resume")
    assert code == 0
    assert log.count("is finished; there is nothing to resume") == 2
    rows = [line.split()[0] for line in text.splitlines() if line]
    assert rows == ["seed", "1", "2", "mean", "std", "answer:", "architecture", "2"]
    assert "answer: retained: the cell of the learner with the lowest loss on all validation images\n" in text
    assert "architecture gradient: first order, of the validation loss at given weights\n" in text


@pytest.mark.parametrize(
    ("text", "seeds"), [("1-3", [1, 2, 3]), ("4", [4]), ("1,4,7", [1, 4, 7]), ("0-1, 5", [0, 1, 5])]
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert seeds_of(text) == seeds


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "search.epohcs=3"], "a config has no key 'search.epohcs'; the nearest is search.epochs"),
        (["--set", "search.weights.l=3"], "a config has no key 'search.weights.l'; the nearest is search.weights.lr"),
        (["--recipe", "papre"], "recipe must be one of quick, paper, released-code, but got 'papre'"),
        (["--method", "drats"], "method must be one of"),
        (["--space", "dart"], f"space: space must be one of {', '.join(SPACES)}, but got 'dart'; did you mean darts?"),
        (["--dataset", "mnist"], "data must be one of digits, cifar10"),
        (["--dataset", "folder:/does/not/exist"], "/does/not/exist"),
        (["--learners", "0"], "1 <= learners <= 64 must hold, but got learners=0"),
        (["--learners", "two"], "Invalid value for '--learners': a whole number is needed, but got 'two'"),
        (["--lambda", "-1"], "search.lambda: Input should be greater than or equal to 0, but got '-1.0'"),
        (["--lambda", ".nan"], "search.lambda: "),
        (["--lambda", "nan"], "Invalid value for '--lambda': a number is needed, but got 'nan'"),
        (["--lambda", "one"], "Invalid value for '--lambda': a number is needed, but got 'one'"),
        (["--seed", "1.5"], "Invalid value for '--seed': a whole number is needed, but got '1.5'"),
        (["--hypergradient", "second"], "search.hypergradient: Input should be 'first-order'"),
        (["--seed", "-1"], "seed: Input should be greater than or equal to 0, but got '-1'"),
        (["--on-nonfinite", "ignore"], "run.on_nonfinite: Input should be 'stop' or 'skip', but got 'ignore'"),
        (["--seeds", "5-1"], "seeds must be like 1-5 or 1,4,7, but got '5-1'"),
        (["--seeds", "1,1"], "seeds must differ, but got '1,1'"),
        (["--seeds", "1", "--set", "seed=1"], "--seed and --seeds cannot be combined, but got both"),
        (["--seeds", "1", "--seed", "1"], "--seed and --seeds cannot be combined, but got both"),
        (["--time-budget", "soon"], "a length of time must be like 30m, 1h30m or 90s, but got 'soon'"),
        (["--time-budget", "1m", "--resume", "--out", "x"], "--time-budget is for new runs"),
        (["--resume"], "--resume needs the folder of the run, but --out is not given"),
        (["--config", "/does/not/exist.yaml"], "/does/not/exist.yaml: No such file"),
        (["extra"], "Got unexpected extra argument"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], sentence: str, capsys: Captured, tmp_path: Path) -> None:
    where = [] if "--out" in arguments else ["--out", str(tmp_path / "run")] * ("--resume" not in arguments)
    assert sentence in refused(capsys, *arguments, *where)
    assert not (tmp_path / "run").exists()


def test_options_stand_above_the_file_and_that_above_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("lambda: 3\nseed: 5\nsearch: {epochs: 4}\n")
    options, changes = {"lambda": 2.0}, ("search.radius=0.5",)
    config = Wanted(options, changes, file, None, None, None, resume=False, allow_drift=False).resolved({})
    assert (config.lam, config.seed, config.search.epochs, config.search.radius) == (2.0, 5, 4, 0.5)
    assert config.search.v_warmup == resolve({}).search.v_warmup


def test_a_run_has_a_folder_of_its_own_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = resolve({"learners": [{"method": "gdas"}, {"method": "darts"}], "dataset": "folder:/images"})
    assert next_folder(config.data.dataset, config.method_names) == Path("runs/folder-gdas-darts-001")
    (tmp_path / "runs" / "folder-gdas-darts-001").mkdir(parents=True)
    assert next_folder(config.data.dataset, config.method_names) == Path("runs/folder-gdas-darts-002")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2.5h", 9000), (" 1H2m ", 3720)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "-3m", "0s", "1m1h", "1e3s", "inf", "9" * 400 + "h"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="a length of time must be like"):
        seconds_of(text)


def test_times_are_written_to_be_read() -> None:
    assert [written(s) for s in (4.4, 99, 125, 7265, 8.64e5)] == ["4 s", "99 s", "2 min 5 s", "2 h 1 min", "10.0 days"]


def test_a_prediction_is_shown_with_its_correlation_and_skips(capsys: Captured, tmp_path: Path) -> None:
    plain = to_plain(published()["DARTS_V2"])
    learner = LearnerResult("darts", 1.0, 50.0, plain, {"nas-bench-301": 95.0}, {"nas-bench-301": 99.0})
    result = SearchResult(
        method="darts", space="darts", dataset="cifar10", learners=1, lam=1.0, seed=0, hypergradient="exact", steps=1,
        seconds=1.0, peak_memory_mb=1.0, retained=0, genotype=plain, parameters=1, validation_loss=1.0,
        validation_error=50.0, group=[learner], answer=retained_record(0),
    )  # fmt: skip
    command._show(result, tmp_path)
    text = capsys.readouterr().out
    assert "predicted nas-bench-301 %" in text
    assert "Spearman correlation with 214 trained cells is 0.52; it does not see skips" in text
    assert "skips in the normal cell of learner 0: 2\n" in text
