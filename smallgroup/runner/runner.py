"""The one loop of every long job: steps, metrics, checkpoints, resumption, requests to end.

The job says what a step is and what an epoch leaves behind; it knows nothing of files.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any, Protocol

from torch import Tensor

from smallgroup.runner.lock import locked
from smallgroup.runner.metrics import Metrics
from smallgroup.runner.signals import watched
from smallgroup.runtime.checkpoints import Checkpoint, Checkpoints
from smallgroup.runtime.environment import Environment
from smallgroup.runtime.files import write_whole
from smallgroup.runtime.memory import is_out_of_memory

METRICS, CHECKPOINTS = "metrics.jsonl", "checkpoints"


class Job(Protocol):
    """Work in steps that can be saved and taken up again between any two of them."""

    @property
    def step(self) -> int:
        """How many steps were taken."""
        ...

    @property
    def finished(self) -> bool:
        """Whether there is no step left."""
        ...

    def advance(self) -> Sequence[Mapping[str, Any]] | None:
        """Take a step; where it ends an epoch, give the rows of metrics of that epoch.

        A step that fails changes nothing.
        """
        ...

    def state(self) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        """All that the next step depends on: tensors by name, and a record that JSON can hold."""
        ...

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Take up what `state` gave."""
        ...

    def close(self) -> None:
        """Let go of processes and files; called when a run ends, however it ends."""
        ...


class Watcher:
    """Somebody who is told how a run goes; this one does nothing, and others override what they want to hear of."""

    def told(self, sentence: str) -> None:
        """Something is not as it should be, such as a checkpoint that is damaged."""

    def resumed(self, step: int) -> None:
        """The run goes on after so many steps."""

    def started(self, job: Job) -> None:
        """The first step comes next."""

    def stepped(self, step: int, seconds: float) -> None:
        """A step was taken; the run has lasted so many seconds in all."""

    def ended_epoch(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """An epoch is over."""

    def saved(self, step: int) -> None:
        """A checkpoint was written."""


class Interrupted(Exception):
    """The run was asked to end, and did after saving."""

    def __init__(self, by: Signals, step: int) -> None:
        super().__init__(f"ended by {by.name} after step {step}; --resume goes on from there")
        self.exit_code = 128 + by


@dataclass
class Runner:
    """Runs a job in a folder.

    Args:
        folder: where metrics and checkpoints go; one process at a time.
        identity: what the job is, as JSON; a checkpoint of another identity is refused.
        environment: what the bits depend on; a checkpoint from another one is refused unless `allow_drift`.
        minutes: how often to save between the ends of epochs.
        keep: how many checkpoints stay.
        files: by name, what is written into the folder when the run begins.
        recorders: who else is told how it goes, such as those who write it down.
    """

    folder: Path
    identity: Mapping[str, Any]
    environment: Environment
    watcher: Watcher | None = None
    minutes: float = 10.0
    allow_drift: bool = False
    keep: int = 2
    files: Mapping[str, str] = field(default_factory=dict)
    recorders: Sequence[Watcher] = ()

    @property
    def _audience(self) -> list[Watcher]:
        return [*self.recorders, *([self.watcher] if self.watcher else [])]

    def check(self, *, resume: bool) -> None:
        """Refuse early what `run` would refuse after a job was made, which may take long."""
        if self.folder.exists():
            with locked(self.folder):
                if not resume:
                    self.check_free()

    def check_free(self) -> None:
        """Refuse a folder in which a run was begun: it would have to be resumed."""
        if Metrics(self.folder / METRICS).length or (self.folder / CHECKPOINTS).exists():
            raise ValueError(f"{self.folder} must be empty or resumed, but a run was begun in it")

    def run(self, job: Job, *, resume: bool = False) -> float:
        """Run the job to its end and give the seconds it took, over all its parts."""
        with locked(self.folder), watched() as ending, closing(job):
            metrics, checkpoints = (
                Metrics(self.folder / METRICS),
                Checkpoints(self.folder / CHECKPOINTS, keep=self.keep),
            )
            before = self._take_up(job, metrics, checkpoints, resume=resume)
            start = saved = time.monotonic()
            for each in self._audience:
                each.started(job)

            def save() -> None:
                tensors, record = job.state()
                seconds = before + time.monotonic() - start
                own = {"metrics": metrics.length, "seconds": seconds, "identity": dict(self.identity)}
                own["environment"] = asdict(self.environment)
                checkpoints.save(job.step, tensors, {"run": own, "job": dict(record)})
                for each in self._audience:
                    each.saved(job.step)

            while not job.finished:
                try:
                    rows = job.advance()
                except Exception as error:
                    self._save_before(error, job, save)
                    raise
                for each in self._audience:
                    each.stepped(job.step, before + time.monotonic() - start)
                if rows is not None:
                    for row in rows:
                        metrics.append(row)
                    for each in self._audience:
                        each.ended_epoch(rows)
                if rows is not None or ending or time.monotonic() - saved > 60 * self.minutes:
                    save()
                    saved = time.monotonic()
                if ending.signal is not None and not job.finished:
                    raise Interrupted(ending.signal, job.step)
            return before + time.monotonic() - start

    def _tell(self, sentence: str) -> None:
        """Say what the user should know, to whoever listens."""
        if self.watcher:
            self.watcher.told(sentence)
        else:
            warnings.warn(sentence, stacklevel=2)

    def _save_before(self, error: Exception, job: Job, save: Callable[[], None]) -> None:
        """A step that fails changes nothing, so that the run can be taken up before it."""
        if is_out_of_memory(error):  # then there is none for a checkpoint either
            error.add_note("no checkpoint was written; --resume takes up the one before")
            return
        try:
            save()
            error.add_note(f"the state after {job.step} steps is saved, and --resume takes it up")
        except Exception as other:  # as where the disk is full: the first error counts
            error.add_note(f"no checkpoint could be written ({other}); --resume takes up the one before")

    def _take_up(self, job: Job, metrics: Metrics, checkpoints: Checkpoints, *, resume: bool) -> float:
        """Go on from the newest checkpoint, or begin; the seconds so far."""
        found = checkpoints.newest() if resume else None
        if found is None:
            if not resume:
                self.check_free()
            elif metrics.length:
                self._tell(f"there is no checkpoint in {self.folder}: the run begins anew, and its metrics too")
            metrics.cut(0)
            for name, text in self.files.items():
                write_whole(self.folder / name, text)
            return 0.0
        run, record = _parts(found)
        check_identity(self.identity, run["identity"])
        drift = Environment(**run["environment"]).differences(self.environment)
        if drift and not self.allow_drift:
            raise ValueError(
                f"a run is resumed where it gives the same bits, but {'; '.join(drift)} (--allow-drift goes on anyway)"
            )
        metrics.cut(run["metrics"])
        job.load_state(found.tensors, record)
        for sentence in found.passed_over:
            self._tell(sentence)
        for name, text in self.files.items():
            if not (self.folder / name).exists():
                write_whole(self.folder / name, text)
        for each in self._audience:
            each.resumed(found.step)
        return float(run["seconds"])


def _parts(found: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    run, record = found.record.get("run"), found.record.get("job")
    keys = {"metrics", "seconds", "identity", "environment"}
    if not isinstance(run, dict) or not isinstance(record, dict) or run.keys() != keys:
        raise ValueError(f"checkpoint {found.step} must be one of a run, but parts of it are missing")
    return run, record


def check_identity(mine: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> None:
    """Refuse to go on with another job than was begun, and name the difference."""
    for key in sorted(mine.keys() | theirs.keys()):
        name = f"{path}{key}"
        ours, saved = mine.get(key), theirs.get(key)
        if isinstance(ours, dict) and isinstance(saved, dict):
            check_identity(ours, saved, f"{name}.")
        elif ours != saved:
            raise ValueError(
                f"a run is resumed with the config it was begun with, but {name} was {saved!r} and is {ours!r}"
            )
