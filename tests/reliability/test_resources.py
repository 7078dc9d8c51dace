"""Memory, files, processes, locks: nothing grows, and nothing is left behind, however a run ends."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import smallgroup
from smallgroup import kernels
from smallgroup.config import resolve
from smallgroup.data.errors import DataError
from smallgroup.jobs import make_job
from smallgroup.phases.search import SearchJob
from smallgroup.phases.training.trainee import NonFiniteTrainingError, Trainee
from smallgroup.runner import Watcher
from smallgroup.runner.lock import InUseError, held, locked
from smallgroup.runtime.memory import memory_in_use
from tests.runner.jobs import Walk, runner
from tests.tools import chaos
from tests.tools.chaos.processes import children
from tests.tools.chaos.subjects import CELL, TRAINING, draw_images


def slope(values: list[float]) -> float:
    """Of a line through values at equal distances."""
    return float(np.polyfit(np.arange(len(values)), values, 1)[0])


@contextmanager
def only_new_objects() -> Iterator[None]:
    """Those that are there already are not looked through again and again."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def tiny(monkeypatch: pytest.MonkeyPatch, epochs: int, steps: int, **keys: Any) -> SearchJob:
    """A search in networks of one cell, whose steps are as cheap as they can be; with default kernels."""
    monkeypatch.setattr("smallgroup.spaces.nas_bench_201.supernet.widths", lambda channels: (channels,))
    search: dict[str, Any] = {"epochs": epochs, "steps_per_epoch": steps}
    search |= {"v_warmup": 0, "architecture_warmup": 0, "batch_size": {"train": 2, "unlabeled": 2, "validation": 2}}
    return make_job(resolve({**chaos.SMALL, "space": {"channels": 1}, "search": search, **keys}))


class Samples(Watcher):
    """Looks at the process every so many steps, once it has had time to settle."""

    def __init__(self, after: int, every: int) -> None:
        self.after, self.every = after, every
        self.bytes: list[float] = []
        self.objects: list[float] = []
        self.tensors: list[float] = []

    def stepped(self, step: int, seconds: float) -> None:  # noqa: ARG002
        if step > self.after and step % self.every == 0:
            gc.collect()
            found = gc.get_objects()
            self.bytes.append(float(memory_in_use()))
            self.objects.append(float(len(found)))
            self.tensors.append(float(sum(one.nbytes for one in found if isinstance(one, torch.Tensor))))


def test_memory_stays_flat_over_a_thousand_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner alone, through the runner, with metrics and checkpoints; of a group of two see below."""
    job = tiny(monkeypatch, 5, 200, method="gdas", learners=1, hypergradient="first-order")
    seen = Samples(after=300, every=50)
    with only_new_objects(), kernels.using():
        runner(tmp_path, watcher=seen, minutes=10.0).run(job)
    assert len(seen.bytes) == 14
    assert slope(seen.bytes) / 50 < 1000, (
        seen.bytes
    )  # bytes per step; one tensor of the state that is kept has thousands
    assert slope(seen.objects) / 50 < 0.2, seen.objects


def test_a_group_that_follows_differences_keeps_nothing_from_step_to_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps are too dear for a thousand of them: but what is kept once per step is seen in a few."""
    job = tiny(monkeypatch, 5, 5, method="darts", learners=2, hypergradient="finite-difference")
    seen = Samples(after=5, every=5)  # always at the end of an epoch
    with only_new_objects(), kernels.using():
        runner(tmp_path, watcher=seen).run(job)
    assert len(seen.tensors) == 4
    assert min(np.diff(seen.tensors)) < 100, seen.tensors  # bytes; what is kept once and for all is not kept every time
    assert min(np.diff(seen.objects)) < 5, seen.objects


def test_a_list_that_grows_is_noticed() -> None:
    """The negative control: ten small objects per step."""
    kept: list[list[int]] = []
    objects = []
    with only_new_objects():
        for _ in range(20):
            kept += [[1] for _ in range(500)]
            gc.collect()
            objects.append(float(len(gc.get_objects())))
    assert slope(objects) / 50 > 0.2


def handles() -> set[str]:
    """Open files by number and target, but for those that come and go with the look itself."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue
    return {one for one in found if "/proc/" not in one}


def fail_at_step_2(monkeypatch: pytest.MonkeyPatch, _: Path) -> type[BaseException]:
    def check(self: Trainee, step: int) -> None:  # noqa: ARG001
        if step == 2:
            raise NonFiniteTrainingError("no")

    monkeypatch.setattr(Trainee, "check", check)
    return NonFiniteTrainingError


def interrupt_at_step_2(monkeypatch: pytest.MonkeyPatch, _: Path) -> type[BaseException]:
    def check(self: Trainee, step: int) -> None:  # noqa: ARG001
        if step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Trainee, "check", check)
    return KeyboardInterrupt


def damage_an_image(_: pytest.MonkeyPatch, images: Path) -> type[BaseException]:
    for path in (images / "left").iterdir():
        path.write_bytes(path.read_bytes()[:-30])
    return DataError


@pytest.mark.parametrize("crash", [fail_at_step_2, interrupt_at_step_2, damage_an_image])
def test_files_and_workers_are_gone_after_a_crash(crash: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = draw_images(tmp_path / "images")
    config = {**TRAINING, "data": {**TRAINING["data"], "dataset": f"folder:{images}"}}
    files, processes, threads = handles(), children(os.getpid()), threading.active_count()
    expected = crash(monkeypatch, images)
    with pytest.raises(expected):
        smallgroup.train(CELL, config, out=tmp_path / "run")
    assert children(os.getpid()) == processes
    assert threading.active_count() == threads
    assert handles() == files
    with locked(tmp_path / "run"):  # nobody holds it
        pass


def test_the_lock_of_a_dead_owner_is_free(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        with locked(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (tmp_path / ".lock").read_text() == f"{child}\n"
    assert not held(tmp_path)
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


def test_who_only_looks_does_not_keep_a_run_from_its_folder(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            held(tmp_path)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(200):
            with locked(tmp_path):
                pass
    finally:
        stop.set()
        watcher.join()
    with locked(tmp_path), pytest.raises(InUseError, match=f"in use by process {os.getpid()}"), locked(tmp_path):
        pass


LONG = """
import sys
from pathlib import Path
from tests.runner.jobs import Walk, runner
print("ready", flush=True)
runner(Path(sys.argv[1])).run(Walk(seconds=float(sys.argv[2])))
"""


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_once_saves_first_and_twice_ends_at_once(tmp_path: Path, times: int) -> None:
    """A step takes two seconds, or a minute that nobody waits for."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG, str(tmp_path), "2" if times == 1 else "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    process.stdout.readline()
    deadline = time.monotonic() + 20
    while not held(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    start = time.monotonic()
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, said = process.communicate(timeout=30)
    assert said.splitlines()[-1].startswith(("smallgroup.runner.runner.Interrupted", "KeyboardInterrupt")[times - 1])
    saved = [path.name for path in tmp_path.glob("checkpoints/*")]
    assert saved == (["000000000001"] if times == 1 else [])
    assert time.monotonic() - start < 15
    runner(tmp_path).run(Walk(), resume=True)
