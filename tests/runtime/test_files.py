"""In which order things are brought to the disk: what a power cut leaves of them depends on it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.runner.metrics import Metrics
from smallgroup.runtime.checkpoints import MANIFEST, RECORD, TENSORS, Checkpoints
from smallgroup.runtime.files import write_whole

Events = list[tuple[str, ...]]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    """Every file or folder that is brought to the disk, with its size if it is a file, and every change of a name."""
    found: Events = []

    def fsync(descriptor: int, original: Callable[[int], None] = os.fsync) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        found.append(("folder", path.name) if path.is_dir() else ("file", path.name, str(path.stat().st_size)))
        original(descriptor)

    def renaming(original: Any) -> Callable[[Any, Any], None]:
        def rename(source: Any, target: Any) -> None:
            found.append(("name", Path(source).name, Path(target).name))
            original(source, target)

        return rename

    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, renaming(getattr(os, name)))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def sizes(place: Path) -> dict[str, str]:
    return {path.name: str(path.stat().st_size) for path in place.iterdir()}


def test_a_file_is_on_the_disk_before_it_has_its_name(folder: Path, events: Events) -> None:
    write_whole(folder / "result.json", "12345")
    (_, temporary, size), *others = events
    assert size == "5"
    assert others == [("name", temporary, "result.json"), ("folder", "run")]


def test_a_row_of_metrics_is_on_the_disk_before_a_checkpoint_counts_it(folder: Path, events: Events) -> None:
    metrics = Metrics(folder / "metrics.jsonl")
    for _ in range(2):
        metrics.append({"a": 1})
    assert events == [("file", "metrics.jsonl", "9"), ("folder", "run"), ("file", "metrics.jsonl", "18")]


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name_and_its_manifest_comes_last(
    folder: Path, events: Events
) -> None:
    checkpoints = Checkpoints(folder / "checkpoints")
    of = sizes(checkpoints.save(3, {"a": torch.ones(3)}, {}))
    unfinished = events[-2][1]
    assert events == [
        ("folder", "run"),
        *(("file", name, of[name]) for name in (TENSORS, RECORD, MANIFEST)),
        ("folder", unfinished),
        ("name", unfinished, "000000000003"),
        ("folder", "checkpoints"),
    ]


def test_the_same_step_once_more_is_set_aside_only_then(folder: Path, events: Events) -> None:
    checkpoints = Checkpoints(folder / "checkpoints")
    checkpoints.save(3, {}, {})
    events.clear()
    checkpoints.save(3, {}, {})
    unfinished = events[-2][1]
    assert events[3:] == [
        ("folder", unfinished),
        ("name", "000000000003", "000000000003.old"),
        ("name", unfinished, "000000000003"),
        ("folder", "checkpoints"),
    ]


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as error:
        write_whole(tmp_path, "text")
    assert error.value.filename == str(tmp_path)
    assert list(tmp_path.parent.glob(".smallgroup*")) == []
