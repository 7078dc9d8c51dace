"""What a run writes down beside its metrics is cut off with them, and never ends a run."""

from pathlib import Path

import pytest

from smallgroup.runner import read_rows
from smallgroup.runner.recorder import Recorder
from smallgroup.runner.tensorboard import EventFiles, numbers_of
from tests.runner.jobs import Walk


def times(folder: Path) -> list[int]:
    return [row["step"] for row in read_rows(folder / "times.jsonl")]


def test_times_are_those_of_the_parts_and_the_rest(tmp_path: Path) -> None:
    spent = {"stage 1": 1.0}
    recorder = Recorder(tmp_path, lambda: {"kind": "search"}, seconds=lambda: spent)
    recorder.started(Walk())
    spent |= {"stage 1": 3.5, "stage 2": 0.25}
    recorder.saved(5)
    (row,) = read_rows(tmp_path / "times.jsonl")
    assert row["seconds"]["stage 1"] == 2.5
    assert row["seconds"]["stage 2"] == 0.25
    assert row["seconds"]["rest"] >= 0
    recorder.saved(6)
    assert list(read_rows(tmp_path / "times.jsonl"))[1]["seconds"]["stage 1"] == 0.0


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    first = Recorder(tmp_path, dict)
    first.started(Walk())
    for step in (5, 10, 15):
        first.saved(step)
    assert times(tmp_path) == [5, 10, 15]
    second = Recorder(tmp_path, dict)
    second.resumed(10)
    second.started(Walk())
    second.saved(12)
    assert times(tmp_path) == [5, 10, 12]
    third = Recorder(tmp_path, dict)
    third.started(Walk())
    assert times(tmp_path) == []


def test_a_damaged_file_of_times_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "times.jsonl").write_text("oops\n")
    recorder = Recorder(tmp_path, dict)
    recorder.resumed(3)
    recorder.started(Walk())
    recorder.saved(4)
    assert times(tmp_path) == [4]


def test_what_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    def broken() -> dict[str, str]:
        raise OSError("no such image")

    recorder = Recorder(tmp_path / "not" / "there", dict, broken)
    recorder.started(Walk())
    recorder.ended_epoch([])
    recorder.saved(1)


def test_numbers_of_a_row() -> None:
    row = {"epoch": 3, "learner": 1, "loss": 0.5, "skips": 2, "on": True, "name": "x", "list": [1], "true": {"a": 1.5}}
    assert dict(numbers_of({**row, "bad": float("nan")})) == {"loss": 0.5, "skips": 2.0, "true.a": 1.5}


def test_event_files_hold_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: no event file was written")
    written = EventFiles(tmp_path)
    for epoch in range(3):
        written.ended_epoch([{"epoch": epoch, "learner": k, "w_error": 10.0 * epoch + k} for k in range(2)])
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    found = EventAccumulator(str(tmp_path)).Reload()
    assert [(one.step, one.value) for one in found.Scalars("learner 1/w_error")] == [(0, 1.0), (1, 11.0), (2, 21.0)]


def test_event_files_without_their_package_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("smallgroup.runner.tensorboard.find_spec", lambda _: None)
    with pytest.raises(ValueError, match="--tensorboard needs the package tensorboard"):
        EventFiles(tmp_path)


def test_times_that_say_nothing_end_no_run(tmp_path: Path) -> None:
    (tmp_path / "times.jsonl").write_text('{"step": null}\n')
    recorder = Recorder(tmp_path, lambda: {"kind": "search"})
    recorder.resumed(3)
    recorder.started(Walk())
    assert times(tmp_path) == []
