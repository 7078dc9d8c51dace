"""Carry a study out by Ray, interrupt it, go on, kill a worker and a process of Ray's: `FOLDER STUDY`."""

import json
import os
import signal
import sys
from pathlib import Path

from smallgroup.study import RayEngine, Store, carry_out_all, planned, tabulated
from smallgroup.study.file import Study
from smallgroup.study.processes import StudyInterrupted
from smallgroup.study.work import StudyProgress


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main() -> None:
    folder, file = map(Path, sys.argv[1:])
    plan, store = planned("tiny", Study.model_validate_json(file.read_text())), Store(folder)
    killed: list[str] = []

    def kill(_: StudyProgress) -> None:
        for run in plan.runs:
            if run.key in killed:  # a run that two workers died of counts as failed
                continue
            if len(killed) < 2 and store.state(run) == "running" and list(store.place(run).glob("checkpoints/0*")):
                worker = int((store.folder(run) / ".lock").read_text())
                # Once the worker, and once the process of Ray's that carries it: the worker saves and ends by itself.
                by_ray = parent(worker)
                assert b"ray::" in Path(f"/proc/{by_ray}/cmdline").read_bytes()
                os.kill(by_ray if killed else worker, signal.SIGKILL)
                killed.append(run.key)

    def interrupt(_: StudyProgress) -> None:
        if all(list(store.place(run).glob("checkpoints/0*")) for run in plan.runs[:2]):
            os.kill(os.getpid(), signal.SIGINT)

    interrupted = False
    try:
        carry_out_all(plan, store, 2, interrupt, RayEngine())
    except StudyInterrupted:
        interrupted = [store.state(run) for run in plan.runs] == ["waiting"] * len(plan.runs)
    carry_out_all(plan, store, 2, kill, RayEngine())
    states = {run.key: store.state(run) for run in plan.runs}
    values = [{name: entry.values for name, entry in row.entries.items()} for row in tabulated(plan, store).rows]
    print(
        json.dumps(
            {
                "interrupted": interrupted,
                "killed": killed,
                "states": states,
                "failed": [store.failure(run) for run in plan.runs],
            }
        )
    )
    print(json.dumps(values))


if __name__ == "__main__":
    main()
