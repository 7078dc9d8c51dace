"""Worker processes end with what they were started for, and what goes wrong in them is told here."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.data import Augmentation, DataError, FileImages, Stream
from smallgroup.data.errors import WorkerError
from smallgroup.data.loader import LabeledImages
from smallgroup.data.workers import Worker
from tests.data.makers import picture


def stream_of(paths: list[Path], workers: int = 2) -> Stream[LabeledImages]:
    images = FileImages([str(path) for path in paths], torch.zeros(len(paths), dtype=torch.int64), size=8)
    settings: dict[str, Any] = {"mean": (0.0,) * 3, "std": (1.0,) * 3, "augmentation": Augmentation.none()}
    return Stream(images, torch.arange(len(paths)), batch_size=2, seed=0, purpose="train", workers=workers, **settings)


def pictures(folder: Path, count: int = 6) -> list[Path]:
    return [picture(folder / f"{number}.png", key=number) for number in range(count)]


def test_workers_end_with_the_iterator(tmp_path: Path, started: list[Worker]) -> None:
    batches = stream_of(pictures(tmp_path)).batches()
    next(batches)
    assert len(started) == 2
    assert all(worker.process.poll() is None for worker in started)
    batches.close()
    assert all(worker.process.poll() is not None for worker in started)


def test_dropped_iterators_end_their_workers(tmp_path: Path, started: list[Worker]) -> None:
    batches = stream_of(pictures(tmp_path)).batches()
    next(batches)
    del batches
    assert all(worker.process.poll() is not None for worker in started)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_damaged_file_is_named_and_workers_end(tmp_path: Path, workers: int, started: list[Worker]) -> None:
    paths = pictures(tmp_path)
    paths[3].write_text("no image")
    with pytest.raises(DataError, match=rf"^image {paths[3]} cannot be decoded: it is no image of a known format$"):
        for _ in zip(range(4), stream_of(paths, workers).batches(), strict=False):
            pass
    assert len(started) == workers
    assert all(worker.process.poll() is not None for worker in started)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_is_an_error_and_no_wait_for_ever(
    by: signal.Signals, tmp_path: Path, started: list[Worker]
) -> None:
    batches = stream_of(pictures(tmp_path)).batches()
    next(batches)
    for worker in started:
        os.kill(worker.process.pid, by)
        worker.process.wait()
    with pytest.raises(WorkerError, match=rf"decoding images ended early \(exit code -{int(by)}\)") as caught:
        for _ in zip(range(50), batches, strict=False):
            pass
    assert not isinstance(caught.value, ValueError)  # which would be bad input, exit code 2


def test_strange_names_of_files_reach_the_worker(tmp_path: Path) -> None:
    paths = [picture(tmp_path / name) for name in ("line\nend.png", "ü 'quoted\".png", "\udcff.png")]
    batches = stream_of(paths).batches()
    assert next(batches)[0].shape == (3, 3, 8, 8)
    batches.close()
    paths[0].write_text("no image")
    paths[1].write_text("no image")
    paths[2].write_text("no image")
    with pytest.raises(DataError) as caught:
        next(stream_of(paths).batches())
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


def test_a_worker_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(WorkerError, match="cannot be started: no such file"):
        next(stream_of(pictures(tmp_path)).batches())


def test_workers_end_when_their_owner_is_killed(tmp_path: Path) -> None:
    pictures(tmp_path)
    program = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent.parent.parent)!r})
from pathlib import Path
from smallgroup.data.workers import Worker
worker = Worker()
print(worker.process.pid, flush=True)
time.sleep(60)
"""
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    worker = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    owner.stdout.close()
    for _ in range(100):
        if not _alive(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker lives on")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    found: list[Worker] = []
    original = Worker.__init__

    def remember(self: Worker) -> None:
        original(self)
        found.append(self)

    monkeypatch.setattr(Worker, "__init__", remember)
    return found
