"""Carrying runs out, one after the other, and how a study stands."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean

from smallgroup import api
from smallgroup.runner import Interrupted, Watcher
from smallgroup.runner.lock import InUseError, LostLockError, locked
from smallgroup.runtime.files import NotRegularError
from smallgroup.runtime.text import printable
from smallgroup.study.plan import Plan, PlannedRun
from smallgroup.study.store import Store, StoreState

PAUSE = 0.5
"""Seconds between two looks at what others do."""
OPEN: tuple[StoreState, ...] = ("waiting", "running")
"""Of a run that is not over."""


class _Log(Watcher):
    """A watcher that writes the messages of a run to the log of the worker."""

    def told(self, sentence: str) -> None:
        """Log a warning, such as that a run starts again. A log that cannot be written does not fail the run."""
        with suppress(OSError):
            print(printable(sentence), file=sys.stderr, flush=True)


def carry_out(run: PlannedRun, store: Store) -> None:
    """Run a search or a training from where it is; its inputs are ready."""
    config, place = run.config, store.place(run)
    if run.trains is not None:
        api.train(store.place(run.trains), config, out=place, resume=True, watcher=_Log())
        return
    if run.labelers is not None:
        search = config.search.model_copy(update={"labelers": store.place(run.labelers)})
        config = config.model_copy(update={"search": search})
    api.search(config, out=place, resume=True, watcher=_Log())


def work(runs: Sequence[PlannedRun], store: Store, begin: Callable[[PlannedRun], None] = lambda _: None) -> None:
    """Work until all runs are done or failed. A failed run is recorded and does not stop the others.

    Those that others hold are waited for: a table made before they end would lack them, and who holds one may leave it.
    Whoever only looks whether a folder is in use holds it for a moment, so what was in use is looked at again. Where
    not even a failure can be recorded, such as in a folder that is none, that is said after all others were tried.
    `begin` hears of every run before it is carried out.
    """
    barred: dict[str, str] = {}

    def is_open(run: PlannedRun) -> bool:
        return run.key not in barred and store.state(run) in OPEN

    while unfinished := [run for run in runs if is_open(run)]:
        tried = False
        for run in unfinished:
            if store.state(run) != "waiting" or any(is_open(need) for need in run.needs):
                continue
            try:
                store.check_own(run)
                with suppress(InUseError), locked(store.folder(run)):
                    if store.result(run) is None and store.failure(run) is None:
                        begin(run)
                        _tried(run, store)
                        tried = True
            except (OSError, NotRegularError) as error:
                barred[run.key] = str(error)
        if not tried:
            time.sleep(PAUSE)
    if barred:
        raise RuntimeError(f"{len(barred)} runs cannot start, the first because of this: {next(iter(barred.values()))}")


def _tried(run: PlannedRun, store: Store) -> None:
    try:
        for need in run.needs:
            if (why := store.failure(need)) is not None:
                raise RuntimeError(f"a run that it needs failed: {why}")
        carry_out(run, store)
    except (Interrupted, LostLockError):
        raise
    except Exception as error:
        store.record_failure(run, f"{type(error).__name__}: {error}"[:1_000])


@dataclass(frozen=True)
class StudyProgress:
    """The progress of a study: how many runs are done, and how long the others take."""

    states: dict[str, StoreState]
    """The state of each run, by the key of the run."""
    seconds_left: float | None
    """Estimated seconds until all runs are done; None: nothing is known yet."""
    unknown: int = 0
    """Runs that are not in it."""

    def count(self, state: StoreState) -> int:
        """Return the number of runs in a state."""
        return sum(each == state for each in self.states.values())


def progress(
    plan: Plan, store: Store, workers: int, reckon: Callable[[PlannedRun], float | None] | None = None
) -> StudyProgress:
    """Return the state of every run, and how long the rest takes; runs of other processes count.

    A run is expected to take as long as finished runs of its kind. If there is none, `reckon` estimates it; without
    an estimate, the mean of the others is taken.
    """
    runs = plan.runs
    states = {run.key: store.state(run) for run in runs}
    taken: dict[str, list[float]] = {}
    for run in runs:
        if (result := store.result(run)) is not None:
            taken.setdefault(run.kind, []).append(result.seconds)
    typical = {kind: fmean(times) for kind, times in taken.items()}
    waiting = [run for run in runs if states[run.key] in OPEN]
    if reckon is not None:
        new = {run.kind: run for run in waiting if run.kind not in typical}
        found = {kind: reckon(run) for kind, run in new.items()}
        typical |= {kind: seconds for kind, seconds in found.items() if seconds is not None}
    known = waiting if reckon is None and typical else [run for run in waiting if run.kind in typical]
    unknown = len(waiting) - len(known)
    if not typical or (waiting and not known):
        return StudyProgress(states, None, unknown)
    left = sum(typical[run.kind] if run.kind in typical else fmean(typical.values()) for run in known)
    return StudyProgress(states, left / max(1, min(workers, len(waiting))), unknown)
