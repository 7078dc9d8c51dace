"""Several processes side by side, each of which carries out runs of a study."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smallgroup.registry import imported_plugins
from smallgroup.runner.signals import watched
from smallgroup.runtime.files import open_regular, read_regular, write_whole
from smallgroup.study.folder import WORKERS
from smallgroup.study.names import check_workers
from smallgroup.study.plan import Plan, PlannedRun
from smallgroup.study.store import Store
from smallgroup.study.work import OPEN, PAUSE, StudyProgress, progress

_MOST_LOSSES = 2
"""Workers that a run may cost. One can be lost by chance; who tries the same run for ever never comes to the others."""


class StudyInterrupted(Exception):
    """The study was asked to end, and so were its workers, which saved first."""

    def __init__(self, by: signal.Signals) -> None:
        super().__init__(f"ended by {by.name}; the same command goes on from there")
        self.exit_code = 128 + by


def carry_out_all(plan: Plan, store: Store, workers: int, watch: Callable[[StudyProgress], None] | None = None) -> None:
    """Every run of a study that is not done, in so many processes. What results does not depend on their number.

    Asked to end, by Ctrl-C, SIGTERM or SIGHUP, it asks them to save and end; asked again, it ends them at once. A
    worker that is killed is replaced, and a run that costs several of them, as for lack of memory, is one that failed.
    """
    check_workers(workers)
    store.check()
    store.check_links(plan)
    crew = _Crew(plan, store)
    with watched() as ending, crew.at_work(workers):
        while crew.is_at_work():
            if ending.signal is not None:
                raise StudyInterrupted(ending.signal)
            if watch is not None:
                watch(progress(plan, store, workers))
            time.sleep(PAUSE)
    if watch is not None:
        watch(progress(plan, store, workers))
    if crew.broken:
        raise RuntimeError(f"a worker ended with code {crew.broken[0]}; its last words are in {crew.logs}")


class _Crew:
    """The workers of this process."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self.logs: Path = store.root / plan.name / WORKERS
        self.broken: list[int] = []
        """Codes of those that ended before all was done, and not because of a run."""
        self._plan, self._store = plan, store
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._losses: Counter[str] = Counter()
        """By the key of the run."""

    def is_at_work(self) -> bool:
        """Whether anybody is; who was killed at a run is replaced."""
        for number, process in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            run = self._dismiss(number)
            if code < 0 and run is not None:
                self._note_loss(run, -code)
                self._start(number)
            elif code != 0:
                self.broken.append(code)
        return bool(self._processes)

    @contextmanager
    def at_work(self, workers: int) -> Iterator[None]:
        """They are asked to save and end when this process is."""
        self.logs.mkdir(parents=True, exist_ok=True)
        write_whole(self._file, self._plan.study.model_dump_json())
        try:
            left = sum(self._store.state(run) in OPEN for run in self._plan.runs)
            for number in range(min(workers, left)):  # a finished study needs no process that imports torch
                self._start(number)
            yield
        except BaseException:
            for process in self._processes.values():
                process.send_signal(signal.SIGTERM)
            raise
        finally:
            try:
                for process in self._processes.values():
                    process.wait()
            except BaseException:  # a second request to end
                for process in self._processes.values():
                    process.kill()
                raise
            finally:
                for number in list(self._processes):
                    self._dismiss(number)

    @property
    def _file(self) -> Path:
        """What they are to do; another process may carry out other seeds or rows of a study of this name."""
        return self.logs / f"{self._plan.hash}.json"

    def _at(self, number: int) -> Path:
        """Which run a worker is at, as it says itself."""
        return self.logs / f"{os.getpid()}-{number}.run"

    def _start(self, number: int) -> None:
        plan, at = self._plan, str(self._at(number))
        arguments = [str(self._store.root), plan.name, str(self._file), json.dumps(plan.only), at]
        command = [sys.executable, "-m", "smallgroup.study.worker", *arguments, *imported_plugins()]
        # Threads of libraries that do not ask torch.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with open_regular(self.logs / f"{number}.log", "ab") as log:
            # Its input is a pipe that nobody writes to: it ends when this process does, however that happens. And it
            # has a group of its own, so that Ctrl-C reaches it once.
            pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": log, "stderr": log}
            self._processes[number] = subprocess.Popen(command, env=environment, start_new_session=True, **pipe)

    def _dismiss(self, number: int) -> PlannedRun | None:
        """After a worker has ended; the last run it was at."""
        process, at = self._processes.pop(number), self._at(number)
        assert process.stdin is not None
        process.stdin.close()
        try:
            key = read_regular(at).decode()
        except (OSError, ValueError):
            return None
        at.unlink(missing_ok=True)
        return next((run for run in self._plan.runs if run.key == key), None)

    def _note_loss(self, run: PlannedRun, by: int) -> None:
        if self._store.result(run) is not None or self._store.failure(run) is not None:
            return  # it had ended: who is killed between two runs says nothing of either
        self._losses[run.key] += 1
        if self._losses[run.key] >= _MOST_LOSSES:
            why = " (a lack of memory does that)" if by == signal.SIGKILL else ""
            name = signal.Signals(by).name if by in set(signal.Signals) else f"signal {by}"
            said = f"{_MOST_LOSSES} workers were ended by {name}{why} while they carried it out"
            self._store.record_failure(run, said)
