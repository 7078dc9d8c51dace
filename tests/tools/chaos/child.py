"""A process that carries a run on, and can be heard."""

import os
import select
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from smallgroup.runner import Job, Watcher
from tests.tools.chaos.attack import Attack, die_within
from tests.tools.chaos.subjects import Subject

PATIENCE = 120.0
"""Seconds after which a process that was asked to end, or that nobody killed, counts as one that hangs."""


class _Voice(Watcher):
    """Says to the parent where a run begins or goes on."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def started(self, job: Job) -> None:
        """After how many steps."""
        os.write(self.pipe, f"started {job.step}\n".encode())


@dataclass
class Child:
    """A process that carries the subject on; a copy of this one, so that it need not import everything again."""

    process: int
    pipe: int
    code: int | None = None
    said: str = ""
    heard: float | None = None
    """When it was heard first."""
    followers: Collection[int] = ()
    """Who it had started when it was attacked."""

    @staticmethod
    def of(subject: Subject, folder: Path, attack: Attack | None, prepare: Callable[[], None] | None) -> "Child":
        """Start it."""
        reading, writing = os.pipe()
        process = os.fork()
        if process:
            os.close(writing)
            os.set_blocking(reading, False)
            return Child(process, reading)
        code = 1
        try:
            os.setpgid(0, 0)  # so that what it leaves behind can be found
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if prepare is not None:
                prepare()
            if attack is not None and attack.within:
                die_within(attack, folder, writing)
            subject.run(folder, _Voice(writing))
            code = 0
        except BaseException as error:
            code = int(getattr(error, "exit_code", 130 if isinstance(error, KeyboardInterrupt) else 1))
            if code == 1:
                os.write(writing, f"error {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)  # nothing of the parent's is to be cleaned up here

    def poll(self) -> bool:
        """Whether it has ended; what it says is heard in the meantime."""
        if self.code is None:
            ended, status = os.waitpid(self.process, os.WNOHANG)
            self._hear()
            if ended:
                self.code = os.waitstatus_to_exitcode(status)
                os.close(self.pipe)
        return self.code is not None

    def wait(self) -> bool:
        """Wait for its end; False if it hangs, and is killed."""
        deadline = time.monotonic() + PATIENCE
        while not self.poll():
            if time.monotonic() > deadline:
                os.kill(self.process, signal.SIGKILL)
                deadline += PATIENCE
                while not self.poll():
                    time.sleep(0.01)
                return False
            time.sleep(0.002)
        return True

    def _hear(self) -> None:
        while select.select([self.pipe], [], [], 0)[0] and (heard := os.read(self.pipe, 4096)):
            self.said += heard.decode(errors="replace")
            self.heard = self.heard or time.monotonic()

    @property
    def started_at(self) -> int | None:
        """After how many steps it went on, if it came so far."""
        steps = [line.split()[1] for line in self.said.splitlines() if line.startswith("started ")]
        return int(steps[0]) if steps else None

    @property
    def died_at(self) -> str | None:
        """What it was about to do when it died from within."""
        return next((line for line in self.said.splitlines() if line.startswith("at ")), None)
