"""`smallgroup report`, `show` and `watch`, and the report at the end of a run."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from smallgroup import pages
from smallgroup.cli import main
from smallgroup.cli.show import BARS, sparkline
from smallgroup.report import page
from smallgroup.report.pdf import write_pdf
from smallgroup.report.shapes import Drawing
from tests.report.makers import CELLS, add_training, make_run

Captured = pytest.CaptureFixture[str]
TINY = [
    "--set=data.labeled_fraction=0.1",
    "--set=space.channels=2",
    "--set=search.epochs=1",
    "--set=search.steps_per_epoch=2",
    "--set=search.batch_size={train: 8, unlabeled: 8, validation: 8}",
    "--hypergradient=first-order",
]
TRAINING = [
    "--set=training.epochs=1",
    "--set=training.steps_per_epoch=2",
    "--set=training.network={channels: 4, cells: 3, cells_per_stage: 1, auxiliary: none}",
]


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    return code, *capsys.readouterr()


def test_report_writes_the_page(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    code, out, error = run(capsys, "report", str(folder))
    assert (code, out, error) == (0, f"{folder / 'report.html'}\n", "")
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    code, out, _ = run(capsys, "report", str(folder), str(folder), "--out", str(tmp_path / "both.html"), "--json")
    assert code == 0
    assert json.loads(out) == {"report": str(tmp_path / "both.html"), "files": []}
    assert "<h1>2 runs</h1>" in (tmp_path / "both.html").read_text()


def test_drawings_as_files(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", epochs=2, learners=1)
    for place in ("one", "two"):
        files = ["--svg", str(tmp_path / place / "svg"), "--pdf", str(tmp_path / place / "pdf")]
        code, out, _ = run(capsys, "report", str(folder), *files, "--json")
        assert code == 0
    made = sorted((tmp_path / "one").rglob("*.*"))
    assert len(json.loads(out)["files"]) == len(made)
    names = {path.stem for path in made if path.suffix == ".svg"}
    assert names == {path.stem for path in made if path.suffix == ".pdf"}
    assert {"found-0", "cell-learner-0-cell", "weights-learner-0-cell", "errors", "gap", "terms-0"} <= names
    for path in made:
        # The same run gives the same bytes.
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()
        if path.suffix == ".svg":
            root = ElementTree.fromstring(path.read_text())
            assert root.get("width") is not None
        else:
            assert path.read_bytes().startswith(b"%PDF-")


def test_describe_counts_the_network_that_show_counts(capsys: Captured, tmp_path: Path) -> None:
    """Of the run: its images, classes and width; another one only where it is asked for."""
    out = tmp_path / "run"
    assert run(capsys, "search", *TINY, "--learners=1", "--out", str(out), *TRAINING)[0] == 0
    for _ in range(2):  # before the cell is trained, and after
        shown = json.loads(run(capsys, "show", str(out), "--json")[1])
        (described,) = json.loads(run(capsys, "describe", str(out), "--json")[1])
        for name in ("parameters", "multiply_adds", "genotype"):
            assert described[name] == shown[name]
        assert run(capsys, "train", str(out), "--resume")[0] == 0
    assert "that of the run: 4 channels, 10 classes, images of 8x8\n" in run(capsys, "describe", str(out))[1]
    (asked,) = json.loads(run(capsys, "describe", str(out), "--network", "cifar10", "--json")[1])
    assert (asked["network"], described["network"]) == ("cifar10", "run")
    assert asked["parameters"] > described["parameters"]


def test_show(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    code, out, error = run(capsys, "show", str(folder))
    assert (code, error) == (0, "")
    assert "validation error  12.50 %\n" in out
    assert "nor_conv_1x1" in out
    assert "Errors of W and V" in out
    assert "█▆▃▁  82.5 → 12.5 %" in out
    assert f"smallgroup report {folder} shows more" in out
    code, out, _ = run(capsys, "show", str(folder), "--json")
    found = json.loads(out)
    assert (found["retained"], found["validation_error"], found["genotype"]) == (0, 12.5, CELLS[1])
    assert found["answer"] == {"rule": "retained", "learner": 0}  # of a result that does not say


def test_show_tells_the_size_of_the_network_that_was_tested(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    keys = ("test_error", "parameters", "multiply_adds")
    before = json.loads(run(capsys, "show", str(folder), "--json")[1])
    assert before["test_error"] is None
    assert before["parameters"] > 14_100  # of the network that the config would train
    within = add_training(folder)
    for place in (folder, within):
        found = json.loads(run(capsys, "show", str(place), "--json")[1])
        assert [found[key] for key in keys] == [7.5, 14_100, 2_000_000]
    assert "parameters        14,100\n" in run(capsys, "show", str(folder))[1]
    (within / "result.json").unlink()
    found = json.loads(run(capsys, "show", str(folder), "--json")[1])
    assert [found[key] for key in keys] == [before[key] for key in keys]


def test_show_retains_nobody_before_the_end(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", finished=False)
    assert "retained" not in run(capsys, "show", str(folder))[1]
    assert json.loads(run(capsys, "show", str(folder), "--json")[1])["retained"] is None


def test_the_balanced_error_is_shown_where_a_result_has_it(capsys: Captured, tmp_path: Path) -> None:
    """Results of earlier versions have none, and stay readable."""
    folder = make_run(tmp_path / "run", epochs=2, learners=1)
    add_training(folder)
    for word in (run(capsys, "show", str(folder))[1], page(pages.read_runs([folder]))):
        assert "balanced validation error" not in word.lower()
        assert "balanced test error" not in word.lower()
    for place, error in ((folder, 23.4567), (folder / "training", 34.5678)):
        result = json.loads((place / "result.json").read_text())
        (place / "result.json").write_text(json.dumps({**result, "balanced_error": error}))
    out = run(capsys, "show", str(folder))[1]
    assert "balanced validation error  23.46 %\n" in out
    assert "balanced test error        34.57 %\n" in out
    made = page(pages.read_runs([folder]))
    assert "Balanced validation error" in made
    assert "34.57" in made


def test_show_rounds_names_units_and_cuts_no_warning(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", epochs=2, learners=1)
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "validation_loss": 1.7993092590332032}))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[0]["warnings"], rows[1]["rebuilt"] = {"long": f"it {'is very ' * 60}long"}, "a stage"
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = run(capsys, "show", str(folder))[1]
    assert "validation loss   1.7993 nats\n" in out
    assert "peak memory       321 MB\n" in out
    assert f"warning: learner 0, from epoch 1 on (metrics.jsonl line 1): it {'is very ' * 60}long\n" in out
    assert "\nlearner 0, epoch 2 (metrics.jsonl line 2), rebuilt: a stage\n" in out


def test_a_pdf_is_whole_or_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def killed(_: object, place: Any, **__: object) -> None:
        place.write_bytes(b"%PDF-") if isinstance(place, Path) else place.write(b"%PDF-")
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", killed)
    with pytest.raises(KeyboardInterrupt):
        write_pdf(Drawing(10, 10, [], "it", "about it"), tmp_path / "it.pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["search", "train"])
def test_the_help_names_the_extra(command: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert "pip install 'smallgroup[tensorboard]'" in " ".join(run(capsys, command, "--help")[1].split())


def test_show_prints_no_untrusted_controls(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "dataset": "\x1b[31mred"}))
    assert "\x1b" not in run(capsys, "show", str(folder))[1]


def test_sparklines() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == BARS
    assert sparkline([3.0, 3.0]) == "▅▅"
    assert sparkline([1.0, 0.0]) == "█▁"


@pytest.mark.parametrize("command", ["report", "show", "watch"])
def test_what_is_no_run_is_one_line(command: str, capsys: Captured, tmp_path: Path) -> None:
    code, out, error = run(capsys, command, str(tmp_path / "none"))
    assert (code, out) == (2, "")
    assert (
        error == f"error: a run is a folder with config.yaml and metrics.jsonl, but {tmp_path / 'none'} has neither\n"
    )


def test_damage_is_a_warning(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "result.json").write_text("{")
    code, _, error = run(capsys, "report", str(folder))
    assert code == 0
    assert error.startswith("warning: result.json cannot be used")


def test_a_report_that_fails_does_not_fail_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("a pen\nbroke")

    monkeypatch.setattr(pages, "page", broken)
    code, _, error = run(capsys, "search", "--out", str(tmp_path / "run"), "--learners=1", "--tensorboard", *TINY)
    assert code == 0
    assert "warning: the report could not be drawn: a pen broke\n" in error
    assert (tmp_path / "run" / "result.json").exists()
    assert not (tmp_path / "run" / "report.html").exists()
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_a_training_within_a_search_draws_the_page_of_the_search_again(capsys: Captured, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    assert run(capsys, "report", str(folder))[0] == 0
    assert f"smallgroup train {folder}" in (folder / "report.html").read_text()
    assert run(capsys, "train", str(folder), *TRAINING)[0] == 0
    tested = json.loads((folder / "training" / "result.json").read_text())["test_error"]
    made = (folder / "report.html").read_text()
    assert f"{tested:.2f} %" in made
    assert f"smallgroup train {folder}" not in made
    assert (folder / "training" / "report.html").exists()


def test_only_parts_of_a_run_draw_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = make_run(tmp_path / "run")
    assert pages._whole_run(search / "training") == [search]
    assert pages._whole_run(search / "random") == [search]
    assert pages._whole_run(search / "other") == []
    assert pages._whole_run(tmp_path / "training") == []
    (search / "training").mkdir()
    monkeypatch.chdir(search / "training")
    assert pages._whole_run(Path()) == [search]


def test_tensorboard_that_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    monkeypatch.setattr("smallgroup.runner.tensorboard.find_spec", lambda _: None)
    code, out, error = run(capsys, "search", "--out", str(tmp_path / "run"), "--tensorboard")
    assert (code, out) == (2, "")
    assert error.startswith("error: --tensorboard needs the package tensorboard")
    assert not (tmp_path / "run").exists()
