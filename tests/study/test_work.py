"""Runs of a study: side by side, killed, failed, and the same whoever does them."""

import json
import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
import yaml

from smallgroup import api, registry
from smallgroup.methods import METHODS, Darts
from smallgroup.runner.lock import held, locked
from smallgroup.study import Store, carry_out_all, planned, progress, tabulated
from smallgroup.study.file import Study, parsed
from smallgroup.study.folder import FAILED, WORKERS
from smallgroup.study.plan import Plan, PlannedRun
from smallgroup.study.work import StudyProgress, work
from tests.study.test_plan import TINY

BASE: dict[str, Any] = {
    "data": {"labeled_fraction": 0.1},
    "space": {"channels": 2},
    "hypergradient": "first-order",
    "search": {"epochs": 2, "steps_per_epoch": 2, "batch_size": {"train": 8, "unlabeled": 8, "validation": 32}},
}


def tiny(**changes: Any) -> Plan:
    """Searches of less than a second on digits."""
    return planned("tiny", parsed({**TINY, "base": BASE, **changes}))


def contents(store: Store, plan: Plan) -> dict[str, Any]:
    """What the runs have come to, but for how long it took."""
    found = {}
    for run in plan.runs:
        folder = store.place(run)
        result = json.loads((folder / "result.json").read_text())
        for passing in ("seconds", "peak_memory_mb"):
            result.pop(passing)
        metrics = (folder / "metrics.jsonl").read_text()
        checkpoints = sorted((folder / "checkpoints").rglob("*.safetensors"))
        found[run.key] = (result, metrics, [path.read_bytes() for path in checkpoints])
    return found


def test_what_a_program_registered_is_refused_before_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers would not find it; in this process it can be carried out."""

    class Own(Darts):
        name = "own-of-a-script"

    monkeypatch.setattr(registry, "_PLUGINS", {})
    monkeypatch.setitem(METHODS._registered, Own.name, Own)
    plan = tiny(seeds=[1], base={**BASE, "method": Own.name})
    store = Store(tmp_path / "studies")
    words = "a study must have its methods from plugins, .* but a program registered 'own-of-a-script'; put it into a"
    with pytest.raises(ValueError, match=words):
        carry_out_all(plan, store, 1)
    assert not (store.root / plan.name / WORKERS).exists()
    # A plugin that is named may have imported the module; a script itself is never imported by a worker.
    monkeypatch.setattr(registry, "_PLUGINS", {"other": "other"})
    assert not METHODS.is_of_program(Own.name)
    Own.__module__ = "__main__"
    assert METHODS.is_of_program(Own.name)
    assert not METHODS.is_of_program("darts")


def test_the_same_bits_in_one_process_and_with_two_workers(tmp_path: Path) -> None:
    plan, one, two = tiny(seeds=[1]), Store(tmp_path / "one"), Store(tmp_path / "two")
    work(plan.runs, one)
    carry_out_all(plan, two, 2)
    assert contents(one, plan) == contents(two, plan)
    table = tabulated(plan, one)
    assert [len(row.entries["validation_error"].values) for row in table.rows] == [1, 1, 1]
    first, independent, _ = (row.entries["validation_error"] for row in table.rows)
    outcome = one.outcome(plan.lines[0].runs[1])
    assert outcome is not None
    assert first.values[1] == outcome.search.group[0].validation_error
    assert independent.values[1] == outcome.search.validation_error


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    plan, store = tiny(seeds=[1]), Store(tmp_path)
    work(plan.runs, store)
    before = {run.key: (store.place(run) / "result.json").stat().st_mtime_ns for run in plan.runs}
    work(plan.runs, store)
    assert before == {run.key: (store.place(run) / "result.json").stat().st_mtime_ns for run in plan.runs}


def test_keys_of_teaching_say_nothing_where_nobody_is_taught(tmp_path: Path) -> None:
    """As studies take it for granted: one learner alone with whatever lambda, and lambda = 0 with whatever targets."""
    config = tiny(seeds=[1]).runs[0].config
    changes: list[dict[str, Any]] = [{"lam": 0.0}, {"lam": 2.0}, {"lam": 0.0, "targets": "own"}]
    metrics = []
    for number, change in enumerate(changes):
        search = config.search.model_copy(update=change)
        place = tmp_path / str(number)
        api.search(config.model_copy(update={"learners": config.learners[:1], "search": search}), out=place)
        metrics.append((place / "metrics.jsonl").read_bytes())
    assert metrics[0] == metrics[1] == metrics[2] != b""


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


@pytest.mark.parametrize("what", ["the lock is a folder", "the run is a file"])
def test_a_folder_that_nobody_can_work_in_does_not_stop_the_others(what: str, tmp_path: Path) -> None:
    plan, store = tiny(seeds=[1]), Store(tmp_path)
    first, second = plan.runs
    store.folder(first).parent.mkdir(parents=True)
    if what == "the run is a file":
        store.folder(first).write_text("")
        work(plan.runs, store)  # it counts as failed, because its record cannot be read
        assert store.state(first) == "failed"
    else:
        (store.folder(first) / ".lock").mkdir(parents=True)
        with pytest.raises(RuntimeError, match=r"1 runs cannot start, the first because of this: .*\.lock"):
            work(plan.runs, store)
    assert store.state(second) == "done"


def test_a_result_of_another_run_is_none_of_this_one(tmp_path: Path) -> None:
    plan, store = tiny(seeds=[1]), Store(tmp_path)
    work(plan.runs[:1], store)
    shutil.copytree(store.folder(plan.runs[0]), store.folder(plan.runs[1]))
    again = Store(tmp_path)
    assert again.result(plan.runs[0]) is not None
    assert again.result(plan.runs[1]) is None
    work(plan.runs, again)
    assert again.state(plan.runs[1]) == "failed"


def test_a_run_that_somebody_holds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, store, seen = tiny(seeds=[1]), Store(tmp_path), []
    mine, other = plan.runs
    with ExitStack() as somebody:
        somebody.enter_context(locked(store.folder(mine)))

        def let_go(_: float) -> None:
            seen.append((store.state(mine), store.state(other)))
            somebody.close()

        monkeypatch.setattr(time, "sleep", let_go)
        work(plan.runs, store)
    assert seen[-1] == ("running", "done")
    assert (store.state(mine), store.state(other)) == ("done", "done")
    assert not held(tmp_path / "nothing")


def at_work(study: str, root: Path, log: Path) -> None:
    """What a worker does, and a line for every run it begins."""

    def begin(run: PlannedRun) -> None:
        with log.open("a") as file:
            file.write(f"{run.key}\n")

    work(planned("tiny", Study.model_validate_json(study)).runs, Store(root), begin)


@pytest.mark.slow  # two processes that load torch, as the workers above
def test_processes_side_by_side_begin_every_run_once(tmp_path: Path) -> None:
    plan, log = tiny(), tmp_path / "log"
    arguments = (plan.study.model_dump_json(), tmp_path / "store", log)
    processes = [get_context("spawn").Process(target=at_work, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert sorted(log.read_text().split()) == sorted(run.key for run in plan.runs)
    assert {Store(tmp_path / "store").state(run) for run in plan.runs} == {"done"}


def test_processes_on_one_name_have_work_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other seeds, rows or files: nobody reads what the other one wrote for its workers."""
    commands: list[list[str]] = []

    def started(command: list[str], **_: Any) -> Any:
        commands.append(command)
        return Popen([sys.executable, "-c", ""], stdin=PIPE)

    monkeypatch.setattr("smallgroup.study.engines.local.subprocess.Popen", started)
    plans = [tiny(seeds=[1]), tiny(seeds=[2]), tiny(title="another")]
    for plan in plans:
        carry_out_all(plan, Store(tmp_path), 1)
    assert [Study.model_validate_json(Path(command[-4]).read_text()) for command in commands] == [
        plan.study for plan in plans
    ]


def test_no_worker_is_started_where_nothing_is_left_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, store, seen = tiny(seeds=[1]), Store(tmp_path), list[StudyProgress]()
    for run in plan.runs:
        store.folder(run).mkdir(parents=True)
        store.record_failure(run, "it broke")

    def start(*_: Any, **__: Any) -> Any:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("smallgroup.study.engines.local.subprocess.Popen", start)
    carry_out_all(plan, store, 2, seen.append)
    assert [standing.count("failed") for standing in seen] == [2]


@pytest.mark.slow  # a command and its worker load torch
def test_a_lost_terminal_saves_a_study_and_it_goes_on(tmp_path: Path) -> None:
    keys = {**TINY, "base": BASE, "seeds": [1], "over": {"search": {"epochs": 40}}}  # so that it is seen at work
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(keys))
    plan, store = planned("tiny", parsed(keys)), Store(tmp_path / "out")
    command = [sys.executable, "-m", "smallgroup", "study", str(tmp_path / "tiny.yaml"), "--out", str(store.root)]
    pipes: dict[str, Any] = {"stdout": PIPE, "stderr": PIPE, "text": True, "preexec_fn": _hear_hang_ups}
    process = Popen(command, **pipes)
    checkpoints = store.place(plan.runs[0]) / "checkpoints"
    while process.poll() is None and not list(checkpoints.glob("0*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGHUP
    assert said.splitlines()[-1] == "error: ended by SIGHUP; run the same command again to continue"
    assert [store.state(run) for run in plan.runs] == ["waiting"] * len(plan.runs)
    assert not held(store.folder(plan.runs[0]))
    uninterrupted = Store(tmp_path / "other")
    work(plan.runs, store)
    work(plan.runs, uninterrupted)
    results = [{key: one[:2] for key, one in contents(each, plan).items()} for each in (store, uninterrupted)]
    assert results[0] == results[1]


def _hear_hang_ups() -> None:
    """Also where the tests themselves run under `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.slow  # four workers, one after the other, load torch
def test_a_run_that_costs_workers_does_not_stop_the_others(tmp_path: Path) -> None:
    """One whose worker is killed once, as by chance, goes on; two in a row mean that it cannot be carried out."""
    slow = {"search": {"steps_per_epoch": 20}}  # so that it is seen at work
    plan, store = tiny(seeds=[1], over=slow), Store(tmp_path)
    first, second = plan.runs
    to_kill = [first, first, second]

    def kill(_: object) -> None:
        at = [path.read_text() for path in (tmp_path / "tiny" / "workers").glob("*.run")]
        if to_kill and at == [to_kill[0].key] and store.state(to_kill[0]) == "running":
            os.kill(int((store.folder(to_kill.pop(0)) / ".lock").read_text()), signal.SIGKILL)

    carry_out_all(plan, store, 1, kill)
    assert to_kill == []
    assert (store.state(first), store.state(second)) == ("failed", "done")
    assert store.failure(first) == ("2 workers were ended by SIGKILL (as when memory runs out) while they ran it")
    assert not list((tmp_path / "tiny" / "workers").glob("*.run"))


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9)])
def test_workers_that_never_come_to_a_run_are_not_replaced(
    end: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def start(*_: Any, **__: Any) -> Any:
        started.append(code)
        return Popen([sys.executable, "-c", f"import os, sys; {end}"], stdin=PIPE)

    monkeypatch.setattr("smallgroup.study.engines.local.subprocess.Popen", start)
    with pytest.raises(RuntimeError, match=f"a worker ended with code {code}; its output is in .*workers"):
        carry_out_all(tiny(seeds=[1]), Store(tmp_path), 1)
    assert started == [code]


def test_time_left_is_that_of_like_runs(tmp_path: Path) -> None:
    plan, store = tiny(), Store(tmp_path)
    assert progress(plan, store, 1).seconds_left is None
    work(plan.runs[:2], store)
    standing = progress(plan, store, 1)
    seconds = sum(result.seconds for run in plan.runs[:2] if (result := store.result(run)) is not None)
    assert standing.seconds_left == pytest.approx(seconds)
    assert progress(plan, store, 2).seconds_left == pytest.approx(seconds / 2)


def test_runs_whose_time_is_not_known_are_not_guessed(tmp_path: Path) -> None:
    plan = tiny()
    half = {plan.runs[0].kind: 10.0}
    standing = progress(plan, Store(tmp_path), 1, lambda run: half.get(run.kind))
    assert (standing.seconds_left, standing.unknown) == (20.0, 2)
    standing = progress(plan, Store(tmp_path), 1, lambda _: None)
    assert (standing.seconds_left, standing.unknown) == (None, 4)


def test_a_study_without_open_runs_starts_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "smallgroup.study.engines.local.subprocess.Popen", lambda *_, **__: pytest.fail("a worker begins")
    )
    plan, store = tiny(seeds=[1]), Store(tmp_path)
    for run in plan.runs:
        store.folder(run).mkdir(parents=True)
        store.record_failure(run, "it broke")
    seen: list[int] = []
    carry_out_all(plan, store, 2, lambda standing: seen.append(standing.count("failed")))
    assert seen == [len(plan.runs)]


def test_workers_are_counted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers=0"):
        carry_out_all(tiny(), Store(tmp_path), 0)


def test_a_search_waits_for_its_labelers_and_rows_share_them(tmp_path: Path) -> None:
    rows = [{"name": "separate", "labelers": {"lambda": 0}}, {"name": "independent", "config": {"lambda": 0}}]
    plan, store = tiny(rows=rows, seeds=[1]), Store(tmp_path)
    first, second = plan.runs
    assert first == plan.lines[1].runs[1].search
    assert second.needs == (first,)
    work(plan.runs[::-1], store)
    assert [store.state(run) for run in plan.runs] == ["done", "done"]
    assert yaml.safe_load((store.place(second) / "config.yaml").read_text())["search"]["labelers"] == str(
        store.place(first)
    )
    metrics = (store.place(second) / "metrics.jsonl").read_text()
    assert "w_unlabeled_loss" in metrics
    assert "v_error" not in metrics


def test_what_needs_a_failed_run_fails_too(tmp_path: Path) -> None:
    rows = [{"name": "separate", "labelers": {"dataset": "folder:nowhere"}}]
    plan, store = tiny(rows=rows, seeds=[1]), Store(tmp_path)
    work(plan.runs, store)
    assert [store.state(run) for run in plan.runs] == ["failed", "failed"]
    assert "a run that it needs failed" in str(store.failure(plan.runs[1]))
    assert len(tabulated(plan, store).rows[0].failed) == 2


def test_rows_that_train_differently_share_a_search(tmp_path: Path) -> None:
    network = {"channels": 4, "cells": 3, "cells_per_stage": 1, "auxiliary": "none"}
    rows = [{"name": "once"}, {"name": "longer", "train": {"training": {"epochs": 2}}}]
    over = {"training": {"steps_per_epoch": 1, "batch_size": 8, "network": network}}
    change = {"phases": ["search", "train"], "columns": ["test_error"], "primary": "test_error", "over": over}
    plan, store = tiny(rows=rows, seeds=[1], retrainings=2, **change), Store(tmp_path)
    assert [run.phase for run in plan.runs] == ["search", *["training"] * 4]
    work(plan.runs, store)
    outcomes = [store.outcome(line.runs[1]) for line in plan.lines]
    assert all(outcome is not None for outcome in outcomes)
    epochs = [[training.epochs for training in outcome.trainings] for outcome in outcomes if outcome is not None]
    assert epochs[1] == [2, 2] != epochs[0]
    seeds = {training.seed for outcome in outcomes if outcome is not None for training in outcome.trainings}
    assert seeds == {1, 100_001}
