"""`smallgroup study`, as a user calls it."""

import json
from pathlib import Path

import pytest
import yaml

from smallgroup.cli import main
from tests.study.test_plan import TINY

STUDY = {
    **TINY,
    "base": {
        "space": {"channels": 2},
        "search": {"epochs": 2, "steps_per_epoch": 2, "batch_size": {"train": 8, "unlabeled": 8, "validation": 8}},
    },
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
    arguments = [str(file), "--out", str(out), "--seeds", "1,2", "--only", "lambda = 1"]
    code, text, _ = called(capsys, *arguments, "--dry-run")
    assert code == 0
    assert "4 runs, 0 of them done" in text
    code, text, error = called(capsys, *arguments, "--workers", "2", "--json")
    assert code == 0, error
    found = json.loads(text)
    assert [row["measures"]["validation_error"]["n"] for row in found["rows"]] == [2, 2, 2]
    assert found["claims"][0]["comparisons"]["independent"]["smallest_p"] == 0.5
    files = [Path(name) for name in found["files"]]
    assert {path.suffix for path in files} == {".md", ".csv", ".tex", ".json", ".svg", ".pdf"}
    before = {path: path.read_bytes() for path in files}
    code, text, _ = called(capsys, *arguments)
    assert "teaching helps (search.lambda = 1.0): not shown" in " ".join(text.split())
    assert {path: path.read_bytes() for path in files} == before  # nothing was run again, and the same bytes came of it


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
