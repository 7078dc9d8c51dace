"""What all jobs share: a run starts in a folder, is resumed there, or returns its result."""

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from smallgroup.api.place import check_place, device_before
from smallgroup.config import CONFIG, Config
from smallgroup.display.search import SearchDisplay
from smallgroup.display.training import TrainingDisplay
from smallgroup.pages import REPORT, draw_all
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.training import (
    MutualResult,
    TrainResult,
)
from smallgroup.places import check_part, is_begun, nothing_to_resume
from smallgroup.ranks import environment_on, skips_of
from smallgroup.report import notebook  # noqa: F401 -- registers what results show in notebooks
from smallgroup.runner import Runner, Watcher, check_identity, read_current_rows
from smallgroup.runner.machine import machine
from smallgroup.runner.place import METRICS
from smallgroup.runtime.files import remove_unfinished
from smallgroup.runtime.memory import memory_explained

LEAST_SECONDS = 2.0
"""Between two checkpoints at the ends of epochs: those of small datasets take less than bringing a file to the disk."""
Result = TypeVar("Result", SearchResult, TrainResult, MutualResult)


@dataclass(frozen=True)
class JobPlan(Generic[Result]):
    """The parts in which one kind of run differs from the others."""

    config: Config
    identity: Mapping[str, Any]
    begun: Callable[[Path], Mapping[str, Any]]
    """The identity of the run that was begun in a folder."""
    read: Callable[[Path], Result | None]
    """The result of a finished run."""
    carry_out: Callable[[Runner], Result]
    advice: str
    """What to do when memory runs out."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is written when the run begins, beside its config."""
    says_what: bool = True
    """Whether the caller gave more than defaults: else a folder without a run is not resumed but refused."""
    also: Sequence[str] = ()
    """How it computes beside the kernel path in use, see `canary`."""
    ranks: int = 1
    """Over how many processes batches are divided, on which the last bits depend."""


def carried_out(
    plan: JobPlan[Result], out: Path | str | None, *, resume: bool, allow_drift: bool, watcher: Watcher | None
) -> Result:
    """Start a run in a folder, resume it, or return the result of a finished one."""
    config, tell = plan.config, warnings.warn if watcher is None else watcher.told
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as name:
        folder: Path = Path(name)
        check_part(folder)
        if resume and not plan.says_what and not is_begun(folder):
            raise nothing_to_resume(folder, "give a config that says what to run")
        if resume and (folder / CONFIG).exists():
            check_identity(plan.identity, plan.begun(folder))
            if (finished := plan.read(folder)) is not None:
                if not (folder / REPORT).exists():  # killed after the result was written
                    remove_unfinished(folder)
                    draw_all(folder, tell)
                return _with_history(finished, folder)
        check_place(folder, config, resume=resume)
        before = device_before(folder) if resume else None
        with machine(config.run, before) as where, memory_explained(plan.advice):
            environment = replace(environment_on(where, plan.also), ranks=plan.ranks)
            runner = Runner(
                folder,
                identity=plan.identity,
                environment=environment,
                watcher=watcher,
                minutes=config.run.checkpoint_minutes,
                least_seconds=LEAST_SECONDS,
                allow_drift=allow_drift,
                skips=skips_of(config),
                # The config comes last: where it is, all that a run is known by is.
                files={**plan.files, CONFIG: config.to_yaml(environment.summary())},
            )
            result = plan.carry_out(runner)
        if out is not None:
            draw_all(folder, tell)
        return _with_history(result, folder)


def _with_history(result: Result, folder: Path) -> Result:
    """Give a result the metrics of its epochs, for tables and plots; without sound metrics it has none."""
    with suppress(OSError, ValueError):
        result.keep_history(read_current_rows(folder / METRICS))
    return result


@contextmanager
def shown_progress(
    display: type[SearchDisplay | TrainingDisplay], watcher: Watcher | None, *, progress: bool
) -> Iterator[Sequence[Watcher]]:
    """Show progress for a caller who gave no watcher.

    It is a recorder, not the watcher of the run: warnings stay warnings of Python's, which the caller can filter.
    """
    if watcher is not None or not progress:
        yield ()
        return
    with display(terse=True) as one:
        yield (one,)
