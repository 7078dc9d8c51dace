"""Array jobs, with commands that really run the script."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from smallgroup.study import SlurmEngine, Store, carry_out_all, tabulated
from smallgroup.study.engines import Workload, engine_named
from smallgroup.study.processes import StudyInterrupted
from smallgroup.study.work import StudyProgress, work
from tests.study.engines.stub_slurm import install, pid_of
from tests.study.test_work import contents, tiny


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = install(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{tmp_path / 'slurm' / 'bin'}:{os.environ['PATH']}")
    return state


@dataclass(frozen=True)
class Shell(Workload):
    """Workers that run a line of the shell; $0 to $5 are ROOT, NAME, STUDY, ONLY, AT and CODE."""

    line: str = ""

    @property
    def program(self) -> list[str]:
        return ["bash", "-c", self.line]


def shell(folder: Path, line: str, **changes: Any) -> Shell:
    given: dict[str, Any] = {
        "study": "s", "root": folder, "folder": folder, "file": folder / "f", "only": (), "crew": "c", "plugins": ()
    }  # fmt: skip
    return Shell(**{**given, **changes}, line=line)


def polled(engine: SlurmEngine, wanted: int) -> Mapping[int, int]:
    found: dict[int, int] = {}
    deadline = time.monotonic() + 60
    while len(found) < wanted and time.monotonic() < deadline:
        found |= engine.poll()
        time.sleep(0.05)
    return found


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_codes_of_tasks_and_one_that_is_killed(tmp_path: Path, jobs: Path) -> None:
    engine = SlurmEngine(seconds=0.1)
    line = 'echo "worker" "$SLURM_ARRAY_TASK_ID"; [[ $4 == *-2.run ]] && exec sleep 100; echo "${4: -5:1}" > "$5"'
    engine.start(shell(tmp_path, line), [0, 1, 2])
    found = dict(polled(engine, 2))
    assert found == {0: 0, 1: 1}
    assert set(engine.active) == {2}
    for _ in range(3):
        time.sleep(0.11)
        assert engine.poll() == {}
    os.kill(pid_of(jobs, 1, 2), signal.SIGKILL)
    assert polled(engine, 1) == {2: -9}
    assert not engine.active
    assert [(tmp_path / f"{number}.log").read_text() for number in (0, 1)] == ["worker 0\n", "worker 1\n"]
    assert not list(tmp_path.glob("*.code"))


def test_a_task_whose_time_is_over_goes_on_in_another_job_but_not_when_the_study_ends(
    tmp_path: Path, jobs: Path
) -> None:
    engine = SlurmEngine(seconds=0.1)
    line = """trap 'echo 143 > "$5"; exit' TERM; echo 1 > "$4"; while true; do sleep 0.05; done"""
    engine.start(shell(tmp_path, line), [0])
    at = tmp_path / "c-0.run"
    for job in (1, 2):
        until(at.exists)
        at.unlink()
        os.kill(pid_of(jobs, job, 0), signal.SIGTERM)  # as Slurm does at the end of its time
        until(lambda job=job: engine.poll() or (jobs / str(job + 1)).exists())  # type: ignore[misc]
        assert set(engine.active) == {0}
    until(at.exists)
    engine.stop()
    assert polled(engine, 1) == {0: 143}
    assert not (jobs / "4").exists()


def test_a_job_that_slurm_refuses_is_one_sentence(tmp_path: Path, jobs: Path) -> None:
    assert jobs.exists()
    with pytest.raises(RuntimeError, match=r"sbatch must accept .*\.sh, but it says sbatch: error: invalid partition"):
        SlurmEngine({"partition": "closed"}).start(shell(tmp_path, "true"), [0])


@pytest.mark.parametrize(
    "name", ["plain", 'it\'s "$(touch evil)" `touch evil`', "-x; touch evil", "a\n#SBATCH --wrap=x\n"]
)
def test_nothing_that_a_user_names_becomes_a_part_of_the_script(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name.replace("/", "")
    folder.mkdir()
    record = tmp_path / "record"
    line = f'printf \'%s\\0\' "$0" "$@" > {record}'
    given = shell(folder, line, study=name, only=(name,), plugins=(name, "--x=$HOME"))
    script = SlurmEngine({"partition": "a,b", "constraint": "[x|y]&z"}).script(given, [3, 5])
    own = script.partition("\ncd -- ")[0].split("\n")[1:]
    assert all(each.startswith("#SBATCH --") and " " not in each[10:] for each in own)
    assert name == "plain" or name not in "\n".join(own)
    (tmp_path / "script").write_text(script)
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "3"}
    subprocess.run(["bash", str(tmp_path / "script")], cwd=tmp_path, env=environment, check=True)
    texts = record.read_text().split("\0")[:-1]
    expected = given.absolute.arguments
    assert texts == [*expected, f"{folder}/c-3.run", f"{folder}/c-3.code", name, "--x=$HOME"]
    assert not list(tmp_path.rglob("evil"))
    assert not Path("evil").exists()


@pytest.mark.parametrize(
    "text",
    ["partition=a b", "partition=a\n#SBATCH --wrap=x", "partition='a'", "partition=$(id)", "partition=a#b",
     "partition=a\\", "partition=", "wrap=id", "array=0-9", "output=/x", "export=ALL", "partition", "=a", "--wrap=id"],
)  # fmt: skip
def test_options_that_could_be_read_as_something_else_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"sbatch must|must be KEY=VALUE"):
        engine_named("slurm", [text])
    with pytest.raises(ValueError, match="--slurm is for --engine slurm"):
        engine_named("local", ["partition=a"])


def test_a_machine_without_slurm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ValueError, match="there is no command sbatch here"):
        SlurmEngine().check()


@pytest.mark.slow  # six processes that load torch
def test_a_study_as_an_array_job_one_worker_killed_nothing_lost(tmp_path: Path, jobs: Path) -> None:
    plan = tiny(seeds=[1], over={"search": {"epochs": 8, "steps_per_epoch": 10}})  # so that they are seen at work
    there, here = Store(tmp_path / "it's there"), Store(tmp_path / "one")
    killed: list[str] = []

    def saved() -> bool:
        return all(list(there.place(run).glob("checkpoints/0*")) for run in plan.runs[:2])

    def interrupt(_: StudyProgress) -> None:
        if saved():
            os.kill(os.getpid(), signal.SIGINT)

    def kill(_: StudyProgress) -> None:
        run = plan.runs[0]
        if not killed and there.state(run) == "running":
            killed.append(run.key)
            os.kill(int((there.folder(run) / ".lock").read_text()), signal.SIGKILL)

    with pytest.raises(StudyInterrupted):
        carry_out_all(plan, there, 2, interrupt, SlurmEngine(seconds=0.5))
    assert [there.state(run) for run in plan.runs] == ["waiting"] * len(plan.runs)
    carry_out_all(plan, there, 2, kill, SlurmEngine(seconds=0.5))
    assert killed
    assert len(list(jobs.iterdir())) == 3  # the second one's lost worker was replaced
    work(plan.runs, here)
    found = [{key: one[:2] for key, one in contents(store, plan).items()} for store in (there, here)]
    assert found[0] == found[1]
    values = [
        [{name: entry.values for name, entry in row.entries.items() if name != "seconds"} for row in table.rows]
        for table in (tabulated(plan, there), tabulated(plan, here))
    ]
    assert values[0] == values[1]
    assert not [path for path in (there.root / "tiny" / "workers").iterdir() if path.suffix in (".run", ".code")]
