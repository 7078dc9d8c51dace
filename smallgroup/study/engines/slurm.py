"""Workers that are the tasks of an array job of Slurm."""

import getpass
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.runtime.text import shown
from smallgroup.study.engines.engine import Workload
from smallgroup.study.engines.script import check_options, code_of, written

_SECONDS = 30.0
"""Between two questions to Slurm, which serves many users."""
_LOST = -9
"""The code of a task that is gone and has left none: what ended it left it no time for that."""
_ENDED_BY_SLURM = 128 + 15
"""The code of a worker that saved on SIGTERM: its time was over, or it had to make room."""
_MOST_PARTS = 1_000
"""Jobs that a worker may consist of, each of which ended because its time was over."""


@dataclass
class _Task:
    job: str
    work: Workload
    missed: int = 0
    """How often Slurm did not list it, one after the other."""
    parts: int = 1


@dataclass
class SlurmEngine:
    """An array job whose tasks are the workers, submitted by `sbatch` and followed by `squeue`.

    Args:
        options: of sbatch, such as `{"partition": "cpu", "time": "04:00:00"}`.
        seconds: the time between two calls of `squeue`.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    seconds: float = _SECONDS
    _tasks: dict[int, _Task] = field(default_factory=dict, init=False)
    _asked: float = field(default=0.0, init=False)
    _ending: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Refuse options that could be read as something else."""
        check_options(self.options)

    def check(self) -> None:
        """Refuse to start if the commands of Slurm are not found."""
        for command in ("sbatch", "squeue", "scancel"):
            if shutil.which(command) is None:
                raise ValueError(f"--engine slurm needs Slurm, but there is no command {command} here")

    @property
    def active(self) -> Collection[int]:
        """Return the tasks that wait, run, or have ended unnoticed."""
        return tuple(self._tasks)

    def script(self, work: Workload, numbers: Sequence[int]) -> str:
        """Return what `start` would submit, to be shown."""
        return written(work, numbers, self.options).decode(errors="replace")

    def start(self, work: Workload, numbers: Sequence[int]) -> None:
        """Submit the workers as one array job."""
        for number in numbers:
            code_of(work, number).unlink(missing_ok=True)
        script = work.absolute.folder / f"{work.crew}.sh"
        write_whole(script, written(work, numbers, self.options))
        done = _run("sbatch", "--parsable", str(script))
        job = done.stdout.strip().partition(";")[0]
        if done.returncode or not (job.isascii() and job.isdigit()):
            said = " ".join((done.stderr or done.stdout).split())
            raise RuntimeError(f"sbatch must accept {script}, but it says {shown(said)}")
        self._tasks |= {number: _Task(job, work) for number in numbers}
        self._asked = time.monotonic()

    def poll(self) -> Mapping[int, int]:
        """Return the codes that tasks have left, and another for those that are gone without one."""
        listed = None
        if self._tasks and time.monotonic() - self._asked >= self.seconds:
            self._asked = time.monotonic()
            listed = _listed()
        ended = {}
        for number, task in list(self._tasks.items()):
            file = code_of(task.work, number)
            code = _code_in(task.work, number)
            if code is None and listed is not None:
                task.missed = 0 if (task.job, number) in listed else task.missed + 1
                if task.missed > 1:  # files of other hosts may be seen late
                    code = _LOST
            if code is None:
                continue
            del self._tasks[number]
            file.unlink(missing_ok=True)
            if code == _ENDED_BY_SLURM and not self._ending and task.parts < _MOST_PARTS:
                self.start(task.work, [number])
                self._tasks[number].parts = task.parts + 1
            else:
                ended[number] = code
        return ended

    def stop(self, *, at_once: bool = False) -> None:
        """Cancel waiting tasks and send SIGTERM to the others, or cancel all."""
        self._ending = True
        self.seconds = min(self.seconds, 5.0)
        for job in sorted({task.job for task in self._tasks.values()}):
            if at_once:
                _run("scancel", job)
            else:
                _run("scancel", "--state=PENDING", job)
                _run("scancel", "--batch", "--signal=TERM", job)


def _code_in(work: Workload, number: int) -> int | None:
    try:
        return int(read_regular(code_of(work, number), 20))
    except (OSError, ValueError):
        return None


def _listed() -> set[tuple[str, int]] | None:
    """Return job and number of the tasks that wait or run; None if Slurm does not say."""
    done = _run("squeue", "--noheader", "--array", f"--user={getpass.getuser()}", "--format=%F %K")
    if done.returncode:
        return None
    words = [line.split() for line in done.stdout.splitlines()]
    return {(found[0], int(found[1])) for found in words if len(found) == 2 and found[1].isdigit()}


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    """Call Slurm. Whatever goes wrong is an answer that says no."""
    nothing = subprocess.DEVNULL
    try:
        return subprocess.run(
            command, stdin=nothing, capture_output=True, text=True, errors="replace", timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
