"""Searches as processes: ended, killed, resumed, refused, out of memory; and what is seen on a terminal."""

import hashlib
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from smallgroup.api import search
from smallgroup.config import load, resolve
from smallgroup.display.search import SearchDisplay
from smallgroup.jobs import make_job
from smallgroup.phases.search.schedule import StepKind
from smallgroup.phases.search.timing import Estimate, StepTimes, fitted
from smallgroup.runner import read_rows
from tests.cli.test_search_command import SMALL, Captured, refused, run
from tests.tools import chaos

KEYS: dict[str, Any] = {
    "space": {"channels": 2},
    "data": {"labeled_fraction": 0.1},
    "search": {
        "hypergradient": "first-order",
        "epochs": 2,
        "steps_per_epoch": 3,
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 8},
    },
}


def start(out: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "smallgroup", "search", *SMALL, "--out", str(out), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


def newest(out: Path) -> int:
    return max((int(path.name) for path in (out / "checkpoints").glob("[0-9]*")), default=0)


def wait_for_checkpoint(out: Path, process: subprocess.Popen[str]) -> None:
    before = newest(out)
    while newest(out) == before:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_signals_save_and_end_and_the_run_goes_on_as_if_nothing_had_been(tmp_path: Path, capsys: Captured) -> None:
    # A checkpoint after every step.
    longer = ["--learners=1", "--set=run.checkpoint_minutes=0", "--set=search.steps_per_epoch=12"]
    part = tmp_path / "part"
    for number, code, arguments in ((signal.SIGINT, 130, longer), (signal.SIGTERM, 143, [*longer, "--resume"])):
        process = start(part, *arguments)
        wait_for_checkpoint(part, process)
        process.send_signal(signal.SIGSTOP)  # or it might be at its end when the signal comes
        assert "in use by process" in refused(capsys, "--out", str(part), "--resume")
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        out, log = process.communicate(timeout=120)
        assert (process.returncode, out) == (code, "")
        assert re.search(rf"error: ended by {number.name} after step \d+; --resume continues from there\n$", log)
    assert run(capsys, "--out", str(part), "--resume")[0] == 0  # the config is that of the run
    assert run(capsys, *SMALL, *longer, "--out", str(tmp_path / "whole"))[0] == 0
    assert chaos.differences(tmp_path / "whole", part) == []


def test_a_finished_run_says_so_and_another_config_is_refused(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    assert run(capsys, *SMALL, "--lambda", "1", "--out", str(out))[0] == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    code, text, log = run(capsys, "--out", str(out), "--resume")
    assert (code, log) == (0, f"the run in {out} is finished; there is nothing to resume\n")
    assert text.startswith("learner ")
    assert "search.lambda was 1.0 and is 2.0" in refused(capsys, "--out", str(out), "--resume", "--lambda", "2")
    assert "search.epochs was 2 and is 3" in refused(capsys, "--out", str(out), "--resume", "--set", "search.epochs=3")
    assert "must be empty or resumed, but it already has a run" in refused(capsys, *SMALL, "--out", str(out))
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    (out / "result.json").write_text("{")
    assert run(capsys, "--out", str(out), "--resume")[0] == 0  # made again, from the last checkpoint
    results = [json.loads(text) for text in ((out / "result.json").read_text(), before["result.json"])]
    for result in results:
        del result["seconds"], result["peak_memory_mb"]
    assert results[0] == results[1]


def test_nothing_to_resume_is_said(tmp_path: Path, capsys: Captured) -> None:
    code, _, log = run(capsys, *SMALL, "--learners=1", "--out", str(tmp_path / "run"), "--resume")
    assert code == 0
    assert log.startswith(f"there is nothing to resume in {tmp_path / 'run'}; starting a new run\n")


def test_a_damaged_checkpoint_is_passed_over_with_a_sentence(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    assert run(capsys, *SMALL, "--out", str(out))[0] == 0
    before = (out / "metrics.jsonl").read_bytes()
    (out / "result.json").unlink()
    newest = max((out / "checkpoints").iterdir())
    content = bytearray((newest / "learner-0.safetensors").read_bytes())
    content[-1] ^= 1
    (newest / "learner-0.safetensors").write_bytes(bytes(content))
    code, _, log = run(capsys, "--out", str(out), "--resume")
    assert code == 0
    assert (
        f"warning: checkpoint {newest} is damaged and was skipped: the checksum of learner-0.safetensors differs" in log
    )
    assert "resumed after step 3" in log
    assert (out / "metrics.jsonl").read_bytes() == before


def test_another_torch_may_give_other_bits(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    assert run(capsys, *SMALL, "--learners=1", "--out", str(out))[0] == 0
    (out / "result.json").unlink()
    for record in (out / "checkpoints").glob("*/record.json"):
        changed = record.read_text().replace(f'"torch": "{torch.__version__}"', '"torch": "1.0"')
        record.write_text(changed)
        manifest = json.loads((record.parent / "manifest.json").read_text())
        manifest["sha256"]["record.json"] = hashlib.sha256(changed.encode()).hexdigest()
        (record.parent / "manifest.json").write_text(json.dumps(manifest))
    assert "torch was '1.0' and is" in refused(capsys, "--out", str(out), "--resume")
    assert run(capsys, "--out", str(out), "--resume", "--allow-drift")[0] == 0


def test_a_loss_that_is_not_finite_stops_before_the_update(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    code, text, log = run(capsys, *SMALL, "--out", str(out), "--set=search.weights.lr=1e30")
    assert (code, text) == (1, "")
    error = log.splitlines()[-1]
    found = re.match(r"error: .* of learner (\d) is not finite in stage (\d) of step (\d)", error)
    assert found
    assert f"the state after {found[3]} steps is saved, and --resume continues from it" in error
    checkpoint = max((out / "checkpoints").iterdir())
    assert int(checkpoint.name) == int(found[3])
    again = run(capsys, "--out", str(out), "--resume")
    assert f"resumed after step {found[3]}\n" in again[2]
    assert again[2].splitlines()[-1] == error


@pytest.mark.parametrize("gigabytes", [1.25, pytest.param(1.5, marks=pytest.mark.slow)])
def test_out_of_memory_says_what_to_lower(tmp_path: Path, gigabytes: float) -> None:
    def limit() -> None:
        most = int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    big = ["--set=search.batch_size={train: 64, unlabeled: 64, validation: 64}", "--set=space.channels=128"]
    process = start(tmp_path, *big, preexec_fn=limit)
    out, log = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, ""), log
    assert "error: memory ran out; lower search.batch_size" in log.splitlines()[-1]
    assert "Traceback" not in log


def test_what_is_seen_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=50, color_system=None)
    with SearchDisplay(console, "seed 1") as display:
        search({**KEYS, "learners": 3}, watcher=display)
        live = [display._live is not None]
    live.append(display._live is not None)
    assert live == [True, False]
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"seed 1 ━+ *epoch 2/2  step 6/6  \d+ s", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown))
    for word in ("learner", "loss V", "loss W", "agreement", "derived %", "cell of learner", "left", "output"):
        assert word in shown, word


def test_long_epochs_are_not_silent_in_a_log() -> None:
    console = Console(file=io.StringIO(), width=200)
    display, job = SearchDisplay(console), make_job(resolve({**KEYS, "search": {**KEYS["search"], "epochs": 1}}))
    display.started(job)
    for step, seconds in ((1, 30.0), (2, 70.0), (3, 140.0)):
        display.stepped(step, seconds)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    told = [line.partition(",")[0] for line in lines if line.startswith("epoch")]
    assert told == ["epoch 1/1  step 2/3  70 s"]


def test_the_time_left_knows_that_steps_differ() -> None:
    """Two steps of V, one of V and W, three that move the architecture; epochs end after steps 3 and 6."""
    job = make_job(resolve({**KEYS, "search": {**KEYS["search"], "v_warmup": 0.34, "architecture_warmup": 0.5}}))
    assert [job.course.kind(step) for step in range(6)] == ["labelers"] * 2 + ["weights"] + ["all"] * 3
    ends = 3 * len(job.metrics.indices) / 8
    estimate = Estimate(job)
    assert estimate.left(1, 10.0) is None  # the first step does not count
    # A step of V took 3 s, which has 3 units of work: V and W 10, all 13.
    assert estimate.left(2, 13.0) == pytest.approx(10 + 3 * 13 + 2 * ends)
    # The third ends an epoch, of which no other step was seen: nothing is learned from it.
    assert estimate.left(3, 99.0) == pytest.approx(3 * 13 + ends)
    # The fourth is the first that moves the architecture, and takes 20 s: so will the others.
    assert estimate.left(4, 119.0) == pytest.approx(2 * 20 + ends * 20 / 13)
    assert estimate.left(5, 139.0) == pytest.approx(20 + ends * 20 / 13)
    assert estimate.left(6, 200.0) == 0


def even(step: float, end: float) -> StepTimes:
    """Two learners without stages whose steps all take the same time."""
    kinds: tuple[StepKind, ...] = ("labelers", "weights", "all")
    return StepTimes({**{(kind, (0, 0)): step for kind in kinds}, ("end", (0, 0)): end})


@pytest.mark.parametrize(
    ("seconds", "epochs", "steps"),
    # Half a second per step of each kind and one second per epoch's end: 2.5 s per epoch of 3 steps.
    [(250, 100, 3), (5.1, 2, 3), (12.4, 4, 3)],
)
def test_a_budget_sizes_epochs(seconds: float, epochs: int, steps: int) -> None:
    job = make_job(resolve(KEYS))
    cost = even(0.5, 1.0)
    if epochs * steps < 10:
        with pytest.raises(ValueError, match=r"4 epochs of 3 steps, about 10\.0 s here, but 5\.1 s of it are left"):
            fitted(job, cost, seconds)
    else:
        assert fitted(job, cost, seconds) == (epochs, steps)


def test_a_budget_shortens_epochs_before_it_leaves_too_few() -> None:
    config = {**KEYS, "search": {**KEYS["search"], "epochs": 10, "steps_per_epoch": 100}}
    epochs, steps = fitted(make_job(resolve(config)), even(1.0, 1.0), 100)
    assert epochs >= 5
    assert 70 <= epochs * steps + epochs <= 100


def test_a_budget_that_is_too_small_is_refused_with_a_time_it_does_not_have() -> None:
    """The ends of epochs count: ten steps alone would fit here, but not the epochs that they are shared out to."""
    config = {**KEYS, "search": {**KEYS["search"], "epochs": 10, "steps_per_epoch": 100}}
    job = make_job(resolve(config))
    with pytest.raises(ValueError, match=r"shortest search, 5 epochs of 2 steps, about 110\.0 s") as caught:
        fitted(job, even(1.0, 20.0), 100)
    assert "but 100.0 s of it are left" in str(caught.value)
    assert fitted(job, even(1.0, 20.0), 111)[0] == 5


def test_a_time_budget_is_kept_and_written_down(tmp_path: Path, capsys: Captured) -> None:
    long = ["--set=search.epochs=5000", "--time-budget", "6s"]
    code, _, log = run(capsys, *SMALL, "--learners=1", *long, "--out", str(tmp_path))
    assert code == 0
    assert log.startswith("measuring how long a few steps take\n")
    config = load(tmp_path / "config.yaml")
    assert config["search"]["epochs"] < 5000
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["steps"] == config["search"]["epochs"] * config["search"]["steps_per_epoch"]
    assert len(list(read_rows(tmp_path / "metrics.jsonl"))) == config["search"]["epochs"]


def test_the_memory_expected_is_near_what_is_taken() -> None:
    """In a process of its own: the most that a process ever had does not shrink."""
    program = """
import torch
from smallgroup.jobs import make_job
from smallgroup.config import resolve
from smallgroup.phases.search.memory import expected_memory
from smallgroup.runtime.memory import memory_in_use, peak_memory
torch.set_num_threads(1)
sizes = {"train": 96, "unlabeled": 96, "validation": 96}
job = make_job(resolve({"hypergradient": "first-order", "space": {"channels": 24}, "search": {"batch_size": sizes}}))
before = memory_in_use()
expected = expected_memory(job) - before
job.take("all")
print(expected / (peak_memory() - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert 0.5 < float(done.stdout) < 2
