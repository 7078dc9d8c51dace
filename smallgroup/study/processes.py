"""Several workers side by side, each of which carries out runs of a study."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from smallgroup.config import Config
from smallgroup.data import DATASETS
from smallgroup.methods import METHODS
from smallgroup.registry import Registry, imported_plugins
from smallgroup.runner.signals import watched
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.spaces import SPACES
from smallgroup.study.engines import Engine, LocalEngine, Workload
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
        super().__init__(f"ended by {by.name}; run the same command again to continue")
        self.exit_code = 128 + by


def carry_out_all(
    plan: Plan,
    store: Store,
    workers: int,
    watch: Callable[[StudyProgress], None] | None = None,
    engine: Engine | None = None,
) -> None:
    """Run every unfinished run of a study with several workers. Results do not depend on their number.

    On Ctrl-C, SIGTERM or SIGHUP the workers save and end; on a second one they end at once. A killed worker is
    replaced. A run that kills several of them, as when memory runs out, counts as failed.
    """
    check_workers(workers)
    store.check()
    store.check_links(plan)
    check_found_by_workers([run.config for run in plan.runs if store.state(run) in OPEN])
    crew = _Crew(plan, store, engine or LocalEngine())
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
        raise RuntimeError(f"a worker ended with code {crew.broken[0]}; its output is in {crew.logs}")


def check_found_by_workers(configs: Iterable[Config]) -> None:
    """Refuse runs with a class that only this process has registered: every worker would end with an error."""
    for config in configs:
        spaces = [config.space, *(one.space for one in config.learners if one.space is not None)]
        data = (config.data.dataset, config.data.unlabeled)
        named: list[tuple[Registry[Any], Iterable[str]]] = [
            (METHODS, [one.method for one in config.learners]),
            (SPACES, [space.name for space in spaces]),
            (DATASETS, [name.partition(":")[0] for name in data]),
        ]
        for registry, names in named:
            if found := next(filter(registry.is_of_program, names), None):
                raise ValueError(
                    f"a study must have its {registry.kind}s from plugins, which its workers import, but a program "
                    f"registered {found!r}; put it into a module, and name that in plugins or by --plugin"
                )


def workload(plan: Plan, store: Store, crew: str) -> Workload:
    """Return what the workers of a study are started with."""
    folder = store.root / plan.name / WORKERS
    # Another process may carry out other seeds or rows of a study of this name.
    file = folder / f"{plan.hash}.json"
    gpu = any(run.config.run.device.startswith("cuda") for run in plan.runs)
    return Workload(plan.name, store.root, folder, file, plan.only, crew, tuple(imported_plugins()), gpu)


def numbers_of(plan: Plan, store: Store, workers: int) -> range:
    """Return the numbers of the workers that are needed: a finished study needs no process that imports torch."""
    return range(min(workers, sum(store.state(run) in OPEN for run in plan.runs)))


class _Crew:
    """The workers that this command started."""

    def __init__(self, plan: Plan, store: Store, engine: Engine) -> None:
        self.broken: list[int] = []
        """Codes of those that ended before all was done, and not because of a run."""
        self._plan, self._store, self._engine = plan, store, engine
        self._work = workload(plan, store, token_hex(8))
        self._losses: Counter[str] = Counter()
        """By the key of the run."""

    @property
    def logs(self) -> Path:
        """Where workers write what they have to say."""
        return self._work.folder

    def is_at_work(self) -> bool:
        """Return whether a worker is still at work; a worker that was killed at a run is replaced."""
        for number, code in self._engine.poll().items():
            run = self._dismiss(number)
            if code < 0 and run is not None:
                self._note_loss(run, -code)
                self._engine.start(self._work, [number])
            elif code != 0:
                self.broken.append(code)
        return bool(self._engine.active)

    @contextmanager
    def at_work(self, workers: int) -> Iterator[None]:
        """Ask the workers to save and end when this process is asked to."""
        self.logs.mkdir(parents=True, exist_ok=True)
        write_whole(self._work.file, self._plan.study.model_dump_json())
        try:
            if numbers := numbers_of(self._plan, self._store, workers):
                self._engine.start(self._work, numbers)
            yield
        except BaseException:
            self._engine.stop()
            raise
        finally:
            try:
                self._wait()
            except BaseException:  # a second request to end
                self._engine.stop(at_once=True)
                raise

    def _wait(self) -> None:
        while self._engine.active:
            for number in self._engine.poll():
                self._dismiss(number)
            time.sleep(PAUSE / 10)

    def _dismiss(self, number: int) -> PlannedRun | None:
        """Clean up after a worker has ended, and return the run it was at."""
        at = self._work.at(number)
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
            why = " (as when memory runs out)" if by == signal.SIGKILL else ""
            name = signal.Signals(by).name if by in set(signal.Signals) else f"signal {by}"
            said = f"{_MOST_LOSSES} workers were ended by {name}{why} while they ran it"
            self._store.record_failure(run, said)
