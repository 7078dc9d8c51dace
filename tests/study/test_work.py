"""Runs of a study: side by side, killed, failed, and the same whoever does them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from smallgroup.runner.lock import held, locked
from smallgroup.study import Store, carry_out_all, planned, progress, tabulated
from smallgroup.study.file import parsed
from smallgroup.study.plan import Plan
from smallgroup.study.store import FAILED, SEARCH
from smallgroup.study.work import work
from tests.study.test_plan import TINY


def tiny(**changes: Any) -> Plan:
    """Searches of seconds on digits."""
    small = {"channels": 2}
    search = {"epochs": 2, "steps_per_epoch": 2, "batch_size": {"train": 8, "unlabeled": 8, "validation": 8}}
    return planned("tiny", parsed({**TINY, "base": {"space": small, "search": search}, **changes}))


def contents(store: Store, plan: Plan) -> dict[str, Any]:
    """What the runs have come to, but for how long it took."""
    found = {}
    for run in plan.runs:
        folder = store.folder(run) / SEARCH
        result = json.loads((folder / "result.json").read_text())
        for passing in ("seconds", "peak_memory_mb"):
            result.pop(passing)
        metrics = (folder / "metrics.jsonl").read_text()
        checkpoints = sorted((folder / "checkpoints").rglob("*.safetensors"))
        found[run.key] = (result, metrics, [path.read_bytes() for path in checkpoints])
    return found


def test_the_same_bits_with_one_worker_and_with_two(tmp_path: Path) -> None:
    plan, one, two = tiny(), Store(tmp_path / "one"), Store(tmp_path / "two")
    carry_out_all(plan, one, 1)
    carry_out_all(plan, two, 2)
    assert contents(one, plan) == contents(two, plan)
    table = tabulated(plan, one)
    assert [len(row.entries["validation_error"].values) for row in table.rows] == [2, 2, 2]
    first, independent, _ = (row.entries["validation_error"] for row in table.rows)
    outcome = one.outcome(plan.runs[0])
    assert outcome is not None
    assert first.values[1] == outcome.search.group[0].validation_error
    assert independent.values[1] == outcome.search.validation_error


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    plan, store = tiny(seeds=[1]), Store(tmp_path)
    work(plan.runs, store)
    before = {run.key: (store.folder(run) / SEARCH / "result.json").stat().st_mtime_ns for run in plan.runs}
    work(plan.runs, store)
    assert before == {run.key: (store.folder(run) / SEARCH / "result.json").stat().st_mtime_ns for run in plan.runs}


def test_a_failed_run_does_not_stop_the_others(tmp_path: Path) -> None:
    rows = [{"name": "bad", "config": {"dataset": "folder:nowhere"}}, {"name": "good"}]
    plan, store = tiny(rows=rows, seeds=[1]), Store(tmp_path)
    work(plan.runs, store)
    bad, good = plan.runs
    assert (store.state(bad), store.state(good)) == ("failed", "done")
    assert "nowhere" in (store.failure(bad) or "")
    assert tabulated(plan, store).rows[0].failed[0].startswith("seed 1: ")
    work(plan.runs, store)
    assert store.state(bad) == "failed"
    store.forget_failure(bad)
    assert store.state(bad) == "waiting"


def test_a_damaged_record_of_a_failure_is_one(tmp_path: Path) -> None:
    plan, store = tiny(seeds=[1]), Store(tmp_path)
    store.folder(plan.runs[0]).mkdir(parents=True)
    (store.folder(plan.runs[0]) / FAILED).write_text("[")
    assert store.state(plan.runs[0]) == "failed"


def test_a_run_that_somebody_works_on_is_left_alone(tmp_path: Path) -> None:
    plan, store = tiny(seeds=[1]), Store(tmp_path)
    mine, other = plan.runs
    with locked(store.folder(mine)):
        assert store.state(mine) == "running"
        work(plan.runs, store)
        assert store.outcome(mine) is None
    assert store.state(other) == "done"
    assert store.state(mine) == "waiting"
    assert not held(tmp_path / "nothing")


def test_a_killed_study_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    plan, whole, killed = tiny(), Store(tmp_path / "whole"), Store(tmp_path / "killed")
    work(plan.runs, whole)
    logs = killed.root / "tiny" / "workers"
    logs.mkdir(parents=True)
    (logs / "study.json").write_text(plan.study.model_dump_json())
    command = [sys.executable, "-m", "smallgroup.study.work", str(killed.root), "tiny", str(logs / "study.json"), ""]
    for sent in (signal.SIGKILL, signal.SIGTERM):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        first = killed.folder(plan.runs[0]) / SEARCH / "checkpoints"
        deadline = time.monotonic() + 60
        while not (first.exists() and any(first.iterdir())) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, sent)
        process.wait()
    assert progress(plan, killed, 1).count("running") == 0
    work(plan.runs, killed)
    assert contents(whole, plan) == contents(killed, plan)


def test_time_left_is_that_of_like_runs(tmp_path: Path) -> None:
    plan, store = tiny(), Store(tmp_path)
    assert progress(plan, store, 1).seconds_left is None
    work(plan.runs[:2], store)
    standing = progress(plan, store, 1)
    seconds = sum(outcome.search.seconds for run in plan.runs[:2] if (outcome := store.outcome(run)) is not None)
    assert standing.seconds_left == pytest.approx(seconds)
    assert progress(plan, store, 2).seconds_left == pytest.approx(seconds / 2)


def test_workers_are_counted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers=0"):
        carry_out_all(tiny(), Store(tmp_path), 0)
