"""The protocol of engines, and what they start."""

import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Workload:
    """The arguments with which the workers of a study are started; they share the folder of the study."""

    study: str
    """Name of the study."""
    root: Path
    """Folder of the studies and their runs."""
    folder: Path
    """Folder for logs, and for the files in which workers name their run."""
    file: Path
    """File of the study that workers read."""
    only: tuple[str, ...]
    """Texts of which names of rows contain one."""
    crew: str
    """Name of this command's workers, so that several commands can share a study."""
    plugins: tuple[str, ...]
    gpu: bool = False
    """Whether every worker needs a GPU of its own."""

    def at(self, number: int) -> Path:
        """Return the file in which a worker names the run it is working on."""
        return self.folder / f"{self.crew}-{number}.run"

    def log(self, number: int) -> Path:
        """Return the log file of a worker."""
        return self.folder / f"{number}.log"

    @property
    def program(self) -> list[str]:
        """Return the words that start a worker."""
        return [sys.executable, "-m", "smallgroup.study.worker"]

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of a worker up to AT; CODE and plugins follow it."""
        return [str(self.root), self.study, str(self.file), json.dumps(self.only)]

    def command(self, number: int) -> list[str]:
        """Return the command of a worker."""
        return [*self.program, *self.arguments, str(self.at(number)), "", *self.plugins]

    @property
    def absolute(self) -> "Workload":
        """Return the same with absolute paths, for workers that start in another folder."""
        return replace(self, root=self.root.absolute(), folder=self.folder.absolute(), file=self.file.absolute())


class Engine(Protocol):
    """An engine that starts workers, says which have ended, and ends them.

    It knows nothing about runs: the store decides which one a worker takes, and resumes it.
    """

    def check(self) -> None:
        """Raise an error if workers cannot be started here."""

    def start(self, work: Workload, numbers: Sequence[int]) -> None:
        """Start a worker for each number."""

    @property
    def active(self) -> Collection[int]:
        """Return the workers that were started and have not been polled as ended."""

    def poll(self) -> Mapping[int, int]:
        """Return the exit codes of the workers that have ended since the last call; of a killed one it is negative."""

    def stop(self, *, at_once: bool = False) -> None:
        """Ask all workers to save and end, or end them; those that have ended are polled as before."""


def environment() -> dict[str, str]:
    """Return the environment of a worker: libraries that do not ask torch have one thread too."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}
