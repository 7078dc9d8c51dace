"""`bench compare`: which rows became slower, and documents that are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from smallgroup.bench.compare import compare
from smallgroup.cli import main

Captured = pytest.CaptureFixture[str]


def row(name: str, cpu: tuple[float, float, float], **more: Any) -> dict[str, Any]:
    low, value, high = cpu
    return {"name": name, "ratio": 9.0, "spread": [1, 20], "cpu_ratio": value, "cpu_spread": [low, high], **more}


def write(path: Path, rows: list[dict[str, Any]], **more: Any) -> Path:
    head = {"threads": 1, "torch": "2.13.0", "cpu": "a processor", "path": "native", "rounds": 3}
    path.write_text(json.dumps({"rows": rows, **head, **more}))
    return path


def test_a_row_is_slower_where_no_round_reaches_those_of_before(tmp_path: Path) -> None:
    before = write(tmp_path / "a", [row("up", (2, 2.1, 2.2)), row("down", (2, 2.1, 2.2)), row("same", (2, 2.1, 2.2))])
    after = write(tmp_path / "b", [row("up", (2.3, 3, 4)), row("down", (1, 1.5, 1.9)), row("same", (1.9, 2, 2.01))])
    found = compare(before, after)
    assert {one.name: one.change for one in found.rows} == {"up": "faster", "down": "slower", "same": "not told apart"}
    assert found.slower == ["down"]
    assert (found.rows[0].before, found.rows[0].after_range) == (2.1, (2.3, 4))


def test_of_seconds_growth_and_bytes_less_is_better(tmp_path: Path) -> None:
    seconds, more = {"name": "s", "fast_seconds": 1.0, "spread": [0.9, 1.1]}, {"name": "m", "ratio": 0.5}
    grown = {"name": "g", "ratio": 2.0, "spread": [1.9, 2.1]}
    before = write(tmp_path / "a", [seconds, {**more, "fast_bytes": 1000}], growth=[grown])
    after = write(
        tmp_path / "b",
        [{**seconds, "fast_seconds": 2.0, "spread": [1.5, 2.5]}, {**more, "fast_bytes": 900}],
        growth=[{**grown, "ratio": 2.5, "spread": [2.2, 2.6]}],
    )
    changes = {one.name: one.change for one in compare(before, after).rows}
    assert changes == {"s": "slower", "m": "faster", "g": "slower"}
    assert {one.change for one in compare(before, before).rows} == {"not told apart"}


def test_on_another_device_wall_time_is_compared(tmp_path: Path) -> None:
    slow = {**row("a", (1, 1.5, 1.9)), "ratio": 4.0, "spread": [3.9, 4.1]}
    fast = {**row("a", (2, 2.1, 2.2)), "ratio": 4.0, "spread": [3.9, 4.1]}
    before, after = (write(tmp_path / f"{one['cpu_ratio']}", [one], device="cuda (A100)") for one in (fast, slow))
    (found,) = compare(before, after).rows
    assert (found.what, found.before, found.change) == ("plain / fast", 4.0, "not told apart")
    assert compare(before, write(tmp_path / "c", [fast], device="cuda (A100)")).notes == []


def test_two_rounds_are_too_few_and_other_circumstances_are_named(tmp_path: Path) -> None:
    before = write(tmp_path / "a", [row("one", (2, 2, 2)), row("gone", (1, 1, 1))], rounds=2)
    after = write(tmp_path / "b", [row("one", (1, 1, 1)), row("new", (1, 1, 1))], threads=2)
    found = compare(before, after)
    assert [one.change for one in found.rows] == ["too few rounds"]
    assert (found.only_before, found.only_after) == (["gone"], ["new"])
    assert found.notes == ["threads was 1 and is 2"]


def test_the_exit_code_says_whether_a_row_is_slower(tmp_path: Path, capsys: Captured) -> None:
    before = write(tmp_path / "a", [row("a \x1b[31mrow", (2, 2.1, 2.2))])
    after = write(tmp_path / "b", [row("a \x1b[31mrow", (1, 1.5, 1.9))])
    assert main(["bench", "compare", str(before), str(after)]) == 1
    out, _ = capsys.readouterr()
    assert "slower" in out
    assert "\x1b" not in out
    assert main(["bench", "compare", str(after), str(before), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["change"] == "faster"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Invalid JSON"),
        ("[]", "must be what `smallgroup bench ... --json` prints"),
        ('{"rows": [{"name": "a", "cpu_ratio": 0, "cpu_spread": [1, 1]}]}', "rows.0.cpu_ratio"),
        ('{"rows": [{"name": "a", "ratio": NaN, "spread": [1, 1]}]}', "rows.0.ratio"),
        ('{"rows": [{"name": "a", "ratio": 1}]}', "have no row in common"),
    ],
)
def test_documents_that_are_none(tmp_path: Path, capsys: Captured, text: str, message: str) -> None:
    (tmp_path / "a").write_text(text)
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "a")]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error
    assert error.count("\n") == 1
