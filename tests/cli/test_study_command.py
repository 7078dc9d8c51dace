"""`smallgroup study`, as a user calls it."""

import json
from pathlib import Path

import pytest
import yaml

from smallgroup.cli import main
from smallgroup.study import Plan, Store, carry_out, opened, planned
from smallgroup.study.file import parsed
from tests.study.test_plan import TINY
from tests.study.test_work import BASE

STUDY = {
    **TINY,
    "base": BASE,
    "claims": [{"says": "teaching helps", "row": "group", "than": ["independent"]}],
    "grid": {"search.lambda": [1.0, 2.0]},
    "figures": [{"kind": "course"}, {"kind": "curve", "axis": "search.lambda"}],
}


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code and what was said."""
    code = main(["study", *arguments])
    out, error = capsys.readouterr()
    return code, out, error


def test_a_study_from_file_to_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "mine.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(STUDY))
    only = ["--only", "lambda = 1.0: group", "--only", "lambda = 1.0: indep", "--only", "= 1.0: alone"]
    arguments = [str(file), "--out", str(out), "--seeds", "1,2", *only]
    code, text, _ = called(capsys, *arguments, "--dry-run")
    assert code == 0
    assert "4 runs, 0 of them done" in text
    code, text, error = called(capsys, *arguments, "--workers", "1", "--json")
    assert code == 0, error
    found = json.loads(text)
    assert [row["measures"]["validation_error"]["n"] for row in found["rows"]] == [2, 2, 2]
    assert found["claims"][0]["comparisons"]["independent"]["smallest_p"] == 0.5
    files = [Path(name) for name in found["files"]]
    assert {path.suffix for path in files} == {".md", ".csv", ".tex", ".json", ".svg", ".pdf"}
    before = {path: undated(path) for path in files}
    code, text, _ = called(capsys, *arguments)
    assert "teaching helps (search.lambda = 1.0): not shown" in " ".join(text.split())
    assert {path: undated(path) for path in files} == before  # nothing was run again, and the same bytes came of it
    plan = planned(*opened(str(file), seeds="1,2"), *only[1::2])
    result = carry_out(plan, out)  # the same from Python
    assert (result.failed, set(result.files)) == (0, set(files))
    assert {path: undated(path) for path in files} == before
    said = "rows with 'lambda = 1.0: group' or 'lambda = 1.0: indep' or '= 1.0: alone' in their names alone"
    assert said in " ".join(text.split())


def undated(path: Path) -> bytes:
    """The content of a file without the line that has the date."""
    return b"".join(line for line in path.read_bytes().splitlines(keepends=True) if b"config hash" not in line)


def test_names_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a run that nobody can carry out is told of by row and seed."""
    file, out = tmp_path / "mine.yaml", tmp_path / "out"
    keys = {**TINY, "title": "a [/x] b", "rows": [{"name": "[alone]"}, {"name": "[/x]"}], "seeds": [1]}
    file.write_text(yaml.safe_dump(keys))
    for run in planned("mine", parsed(keys)).runs:
        Store(out).folder(run).mkdir(parents=True)
        Store(out).record_failure(run, "it broke")
    code, text, error = called(capsys, str(file), "--out", str(out), "--lines")
    assert code == 1
    assert "a [/x] b" in text
    assert "│ [alone] " in text
    assert "│ [/x] " in text
    assert "failed: search of seed 1 ([alone]; [/x])" in error


def test_a_dry_run_says_what_would_be_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({**TINY, "columns": ["percentile"], "primary": "percentile", "seeds": [1]}))
    code, text, error = called(capsys, str(file), "--dry-run", "--only", "group", "--out", str(tmp_path))
    assert code == 0
    assert "1 runs, 0 of them done" in text
    assert error.splitlines()[0].startswith("note: this study cannot run as it is: true accuracies need")
    code, text, error = called(capsys, str(file), "--only", "group", "--out", str(tmp_path))
    assert (code, text) == (2, "")


def test_a_study_is_not_called_like_the_folder_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.yaml"
    file.write_text(yaml.safe_dump(TINY))
    code, _, error = called(capsys, str(file), "--dry-run")
    assert (code, error.count("\n")) == (2, 1)
    assert "runs.yaml would make it runs" in error
    above = file.rename(tmp_path / "...yaml")
    assert "would make it .." in called(capsys, str(above), "--dry-run")[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "a study must be a file or one of"),
        (["teaching", "--recipe", "best"], "recipe must be one of"),
        (["teaching", "--seeds", "x"], "seeds must be like"),
        (["teaching", "--set", "search.epoch=1"], "nearest is search.epochs"),
        (["teaching", "--only", "nobody"], "row with 'nobody'"),
    ],
)
def test_bad_input_is_a_sentence(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, error = called(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in error
    assert error.count("\n") == 1


def test_a_failed_run_is_seen_in_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is printed all the same."""
    file, out = tmp_path / "mine.yaml", tmp_path / "out"
    keys = {**TINY, "rows": [{"name": "bad", "config": {"dataset": "folder:nowhere"}}]}
    file.write_text(yaml.safe_dump(keys))
    study = planned("mine", parsed(keys))
    for run in study.runs:
        Store(out).folder(run).mkdir(parents=True)
        Store(out).record_failure(run, "it broke")
    code, text, error = called(capsys, str(file), "--out", str(out))
    assert code == 1
    assert "0 of 2" in text
    assert "seed 2: it broke" in text
    assert error.splitlines()[-1] == "error: 2 of 2 runs failed; the table names them, and --retry runs them again"
    code, text, _ = called(capsys, str(file), "--out", str(out), "--retry")
    assert code == 1
    assert "it broke" not in text
    assert "seed 2: DataError: " in text


def test_controls_follow_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--set` all rows search by finite differences, the independent ones too: 2 x 34 passes are 5 x 12."""
    seen: list[Plan] = []
    monkeypatch.setattr("smallgroup.cli.study._list", lambda plan, *_: seen.append(plan))
    assert main(["study", "teaching", "--dry-run", "--set", "search.hypergradient=finite-difference"]) == 0
    assert [row.name for row in seen[0].study.rows[2:4]] == ["best of 2 independent", "best of 5 independent"]
