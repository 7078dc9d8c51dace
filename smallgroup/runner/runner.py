"""The one loop of every long job: steps, metrics, checkpoints, resumption, requests to end.

The job says what a step is and what an epoch leaves behind; it knows nothing of files.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any, NoReturn

from smallgroup.runner.identity import check_identity
from smallgroup.runner.lock import Ownership, locked
from smallgroup.runner.metrics import Metrics, check_free
from smallgroup.runner.place import CHECKPOINTS, METRICS
from smallgroup.runner.saved import Saved, parts_of
from smallgroup.runner.signals import watched
from smallgroup.runner.skips import Skips
from smallgroup.runner.watcher import Job, Watcher
from smallgroup.runtime.checkpoints import Checkpoint, Checkpoints
from smallgroup.runtime.environment import Environment
from smallgroup.runtime.files import check_not_link, remove_unfinished, write_whole
from smallgroup.runtime.memory import is_out_of_memory
from smallgroup.runtime.world import BETWEEN_STEPS, IN_STEP, JobState, LostRankError, TornStepError, Vote, World

DRIFT = "the result may differ from that of an uninterrupted run: {}"
RANKS = "batches were divided over {} ranks and now over {}: the images are the same, but the last bits may differ"


class Interrupted(Exception):
    """The run was asked to end, and did after saving."""

    def __init__(self, by: Signals, step: int) -> None:
        super().__init__(f"ended by {by.name} after step {step}; --resume continues from there")
        # What shells give for a process that a signal ended.
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
        least_seconds: between two ends of epochs at which is saved; very short epochs would wait for the disk.
        skips: how many batches may be left out whose numbers are not finite (a `FloatingPointError`).
        files: by name, what is written into the folder when the run begins.
        recorders: more watchers, such as those that write event files.
        world: the processes that run the job together. Rank 0 alone has files and watchers; the others take the same
            steps, and do between them what all have voted for.
    """

    folder: Path
    identity: Mapping[str, Any]
    environment: Environment
    watcher: Watcher | None = None
    minutes: float = 10.0
    allow_drift: bool = False
    keep: int = 2
    least_seconds: float = 0.0
    skips: Skips = field(default_factory=Skips)
    files: Mapping[str, str] = field(default_factory=dict)
    recorders: Sequence[Watcher] = ()
    world: World = field(default_factory=World)

    def run(self, job: Job, *, resume: bool = False) -> float:
        """Run the job to its end and give the seconds it took, over all its parts."""
        leads = self.world.is_first
        with locked(self.folder) if leads else nullcontext() as owner, watched() as ending, closing(job):
            metrics, checkpoints = (
                Metrics(self.folder / METRICS),
                Checkpoints(self.folder / CHECKPOINTS, keep=self.keep),
            )
            before = self._take_up_together(job, metrics, checkpoints, resume=resume)
            start = saved = time.monotonic()
            first = True
            self._tell_all(lambda each: each.started(job))

            def save() -> None:
                tensors, record = job.state()
                if owner is None:
                    return
                owner.check()
                seconds = before + time.monotonic() - start
                own = {"metrics": metrics.length, "seconds": seconds, "identity": dict(self.identity)}
                own |= {"environment": asdict(self.environment), "metrics_sha256": metrics.digest()}
                own |= {"skipped_in_a_row": self.skips.in_a_row, "skipped_in_epoch": self.skips.in_epoch}
                checkpoints.save(job.step, tensors, {"run": own, "job": dict(record)})
                self._tell_all(lambda each: each.saved(job.step))

            while not job.finished:
                rows, before_step, where = None, job.step, 0
                failure: BaseException | None = None
                try:
                    rows = job.advance()
                except Exception as error:
                    if not self._left_out(error, job):
                        failure, where = error, IN_STEP
                else:
                    if job.step > before_step:
                        self.skips.taken()
                if rows is not None:
                    left_out = self.skips.of_epoch()
                    rows = [{**row, **left_out} for row in rows]
                can_save = True
                if failure is None:
                    failure, can_save = self._written_down(owner, metrics, job, before + time.monotonic() - start, rows)
                    where = 0 if failure is None else BETWEEN_STEPS
                since = time.monotonic() - saved
                at_end = rows is not None and (since >= self.least_seconds or first or job.finished)
                due = bool(where or ending or at_end or since > 60 * self.minutes)
                agreed = self.world.vote(Vote(ending.signal or 0, save=can_save and due, failed=where))
                if agreed.failed:
                    self._fail(failure, job, save, can_save=agreed.save)
                if agreed.save:
                    with self.world.together(), _told_what_is_left():
                        save()
                    saved, first = time.monotonic(), False
                if agreed.signal:  # also after the last step: what would follow this run must not begin
                    raise Interrupted(Signals(agreed.signal), job.step)
            return before + time.monotonic() - start

    def _written_down(
        self,
        owner: Ownership | None,
        metrics: Metrics,
        job: Job,
        seconds: float,
        rows: Sequence[Mapping[str, Any]] | None,
    ) -> tuple[BaseException | None, bool]:
        """Write what a step leaves behind and tell of it; return what failed, and whether the step may be saved.

        Without all its rows it may not, nor where another process has taken the folder over.
        """
        if owner is None:
            return None, True
        try:
            owner.check()
            with _told_what_is_left():
                for row in rows or ():
                    metrics.append(row)
        except Exception as error:
            return error, False
        try:
            self._tell_of_step(job.step, seconds, rows)
        except (Exception, SystemExit) as error:  # between two steps, with all rows written
            return error, True
        return None, True

    def _fail(self, own: BaseException | None, job: Job, save: Callable[[], None], *, can_save: bool) -> NoReturn:
        """End the run on all ranks because of what failed, here or on another rank."""
        error = own or LostRankError("the run ends because another rank failed between two steps")
        if can_save:
            self._save_before(error, job, save)
        raise error

    def _tell_of_step(self, step: int, seconds: float, rows: Sequence[Mapping[str, Any]] | None) -> None:
        self._tell_all(lambda each: each.stepped(step, seconds))
        if rows is not None:
            self._tell_all(lambda each: each.ended_epoch(rows))

    def _tell_all(self, call: Callable[[Watcher], None]) -> None:
        if not self.world.is_first:
            return
        for each in [*self.recorders, *([self.watcher] if self.watcher else [])]:
            self._tell_one(each, call)

    def _tell_one(self, each: Watcher, call: Callable[[Watcher], None]) -> None:
        """Call a watcher; one that can no longer write, as to a terminal that is gone, is dropped."""
        try:
            call(each)
        except OSError as error:
            self.recorders = [other for other in self.recorders if other is not each]
            self.watcher = None if each is self.watcher else self.watcher
            self._tell(f"the run continues without {type(each).__name__}, which failed: {error}")

    def _tell(self, sentence: str) -> None:
        """Say what the user should know, to whoever listens."""
        if not self.world.is_first:
            return
        if self.watcher:
            self._tell_one(self.watcher, lambda each: each.told(sentence))
        else:
            warnings.warn(sentence, stacklevel=2)

    def _left_out(self, error: Exception, job: Job) -> bool:
        """Return whether the run continues without the step that failed."""
        if isinstance(error, TornStepError):  # then the others can neither vote nor save
            raise error
        step = job.step
        if not isinstance(error, FloatingPointError) or not self.skips.leave_out(error) or not job.leave_out():
            return False
        self._tell(f"the batch of step {step} is skipped: {error}")
        return True

    def _save_before(self, error: BaseException, job: Job, save: Callable[[], None]) -> None:
        """Save before an error ends the run: a step that fails changes nothing, so that the run can be resumed."""
        if is_out_of_memory(error):  # then there is none for a checkpoint either
            error.add_note("no checkpoint was written; --resume continues from the previous one")
            return
        try:
            save()
            error.add_note(f"the state after {job.step} steps is saved, and --resume continues from it")
        except Exception as other:  # as where the disk is full: the first error counts
            error.add_note(f"no checkpoint could be written ({other}); --resume continues from the previous one")

    def _take_up_together(self, job: Job, metrics: Metrics, checkpoints: Checkpoints, *, resume: bool) -> float:
        """Go on from the newest checkpoint, or begin, on all ranks: rank 0 reads it. The seconds so far."""
        seconds, found = 0.0, None
        with self.world.together():
            if self.world.is_first:
                seconds, found = self._take_up(job, metrics, checkpoints, resume=resume)
        state = self.world.pass_on(
            None if found is None else JobState(found.tensors, {**found.record, "step": found.step})
        )
        with self.world.together():
            if not self.world.is_first and state is not None:
                there = Checkpoint(state.record["step"], dict(state.tensors), dict(state.record))
                run, record = parts_of(there)
                _load(job, there, record)
                self._go_on_counting(run)
        return seconds

    def _go_on_counting(self, run: Saved) -> None:
        self.skips.in_a_row, self.skips.in_epoch = run.skipped_in_a_row, run.skipped_in_epoch

    def _take_up(
        self, job: Job, metrics: Metrics, checkpoints: Checkpoints, *, resume: bool
    ) -> tuple[float, Checkpoint | None]:
        """Go on from the newest checkpoint, or begin; the seconds so far, and the checkpoint."""
        found = checkpoints.newest() if resume else None
        if found is None:
            if not resume:
                check_free(self.folder)
            else:
                self._check_whole()
                if metrics.length:
                    self._tell(f"there is no checkpoint in {self.folder}: the run starts again, with empty metrics")
            remove_unfinished(self.folder)
            metrics.cut(0)
            for name, text in self.files.items():
                write_whole(self.folder / name, text)
            return 0.0, None
        run, record = parts_of(found)
        check_identity(self.identity, run.identity)
        drift = self._checked_drift(run.environment)
        metrics.check(run.metrics)
        _load(job, found, record)
        remove_unfinished(self.folder)
        metrics.cut(run.metrics)
        for sentence in found.passed_over:
            self._tell(sentence)
        if drift:
            self._tell(DRIFT.format(drift))
        if run.environment.ranks != self.environment.ranks:
            self._tell(RANKS.format(run.environment.ranks, self.environment.ranks))
        if self.environment.canary and not run.environment.shares_canary(self.environment):
            self._tell(
                "the checkpoint is from an earlier version: it is not known whether this machine rounds as before"
            )
        if run.metrics_sha256 not in (None, metrics.digest()):
            self._tell(f"{metrics.path} was changed after it was written: earlier lines may be wrong")
        for name, text in self.files.items():
            if not (self.folder / name).exists():
                write_whole(self.folder / name, text)
        self._tell_all(lambda each: each.resumed(found.step))
        self._go_on_counting(run)
        return run.seconds, found

    def _check_whole(self) -> None:
        """Refuse to begin a part of a run, as its training, where its search would not have been resumed."""
        whole = Checkpoints(self.folder.parent / CHECKPOINTS)
        try:
            found = whole.newest()
            before = None if found is None else parts_of(found)[0].environment
        except (ValueError, OSError) as error:
            self._tell(f"it is not known whether this machine rounds as before: {error}")
            return
        if before is not None and (drift := self._checked_drift(before)):
            self._tell(DRIFT.format(drift))

    def _checked_drift(self, before: Environment) -> str:
        """Say what may change the bits of a run; unless that is allowed, it is refused."""
        drift = _drift(before, self.environment)
        if drift and not self.allow_drift:
            raise ValueError(
                f"a run must be resumed where it gives the same bits, but {drift} (--allow-drift resumes anyway)"
            )
        return drift


@contextmanager
def _told_what_is_left() -> Iterator[None]:
    """Explain a full disk: it ends a run, but what was saved before is safe."""
    try:
        yield
    except OSError as error:
        error.add_note("free some space; --resume then continues from the newest checkpoint")
        raise


def _drift(before: Environment, now: Environment) -> str:
    """Say what may change the bits of a run, and what else differs; empty if nothing is known to change them."""
    found, causes = before.differences(now), before.causes(now)
    return "; ".join([*found, *(f"also {cause}" for cause in causes)]) if found else ""


def _load(job: Job, found: Checkpoint, record: Mapping[str, Any]) -> None:
    """Take up a checkpoint; one that is whole may still be of something else, or made to look like one."""
    try:
        job.load_state(found.tensors, record)
    except (KeyError, IndexError, TypeError, AttributeError, RuntimeError) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ValueError(f"checkpoint {found.step} must fit the run, but it does not ({why})") from error
    if job.step != found.step:
        raise ValueError(f"checkpoint {found.step} must be of step {found.step}, but its job is at step {job.step}")


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse early what `Runner.run` would refuse after a job was made, which may take long."""
    check_not_link(folder / CHECKPOINTS)
    if folder.exists():
        with locked(folder):
            if not resume:
                check_free(folder)
