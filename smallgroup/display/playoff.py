"""What is seen of a play-off."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from smallgroup.display.display import Display
from smallgroup.phases.playoff.job import PlayOffJob
from smallgroup.runner import Job
from smallgroup.runtime.durations import written
from smallgroup.spaces.drawing import one_line


class PlayOffDisplay(Display):
    """Shows a play-off: who takes part, and how each candidate does in its rounds."""

    def introduce(self, job: Job) -> tuple[list[str], int, int]:
        """Return the number of candidates and how they are compared."""
        assert isinstance(job, PlayOffJob)
        self._job = job
        self._began: tuple[int, float] | None = None
        config = job.config
        spent = f"about {job.steps:,} steps" if config.seconds is None else f"{written(config.seconds)} of CPU time"
        most = "" if job.costs else "at most "  # how many the time is enough for is seen when steps are measured
        how = f"{len(job.candidates)} cells are trained from scratch; the better half continues; {spent}"
        lines = [f"play-off: {most}{how}"]
        lines += [f"  {k}: {one.source}: {one_line(one.genotype)}" for k, one in enumerate(job.candidates)]
        return lines, max(1, job.steps), max(1, job.steps)

    def time_left(self, step: int, seconds: float) -> float | None:
        """Return the seconds left by the steps so far; those of other candidates may take longer."""
        if self._began is None:
            self._began = (step, seconds)
            return None
        first, since = self._began
        return (seconds - since) / max(1, step - first) * max(0, self._job.steps - step)

    def place(self, step: int) -> str:
        """Return the round and the steps as far as they are known."""
        self._bar.update(self._task, total=self._job.steps)
        return f"play-off  step {step}/{self._job.steps}"

    def lines(self, row: Mapping[str, Any]) -> list[str]:
        """Return a line on a turn of the play-off."""
        return [
            f"round {row['round'] + 1}: candidate {row['candidate']} ({row['source']}): validation error "
            f"{row['validation_error']:.2f} % after {row['steps']:,} steps"
        ]

    def summary(self, row: Mapping[str, Any]) -> str:
        """Return the same line, which is short."""
        return self.lines(row)[0]

    def picture(self) -> RenderableType:
        """Return the same lines for a live terminal."""
        return Group(*(Text(line) for row in self.rows for line in self.lines(row)))
