"""How a run is watched: a display that is drawn again and again on a terminal, lines elsewhere. All on stderr."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from time import monotonic
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import Progress
from rich.text import Text

from smallgroup.display.console import CleanConsole, bar_columns
from smallgroup.runner import Job, Watcher
from smallgroup.runtime.durations import written
from smallgroup.runtime.text import printable

FIRST_STEPS = 3
"""After so many steps it is said how long all of them will take."""
MEASURING = "measuring how long a few steps take"
SILENCE = 60.0
"""Seconds after which there is a line where lines are printed, should an epoch take longer."""

PAUSE = 0.25
"""Seconds between two drawings in a notebook, where each is a message to the browser."""


class Display(Watcher, ABC):
    """Tells a run to whoever sits before the terminal, or reads the log. What is shown of it is up to each kind."""

    def __init__(self, console: Console | None = None, title: str = "", *, terse: bool = False) -> None:
        self.console = console or CleanConsole(stderr=True)
        self.title = title
        self.terse = terse
        """Whether there is no introduction, and where lines are printed, one per epoch."""
        self.rows: Sequence[Mapping[str, Any]] = ()
        self._live: Live | None = None
        self._bar = Progress(*bar_columns(), auto_refresh=False)

    # What each kind of run says of itself.

    @abstractmethod
    def introduce(self, job: Job) -> tuple[list[str], int, int]:
        """Return a few lines on what is about to happen, the steps of the run, and those of an epoch."""

    def position(self, job: Job) -> int:
        """Return how many of the run's steps are behind a job."""
        return job.step

    @property
    def moments(self) -> tuple[int, ...]:
        """After how many steps from the beginning it is said how long the others will take."""
        return (FIRST_STEPS,)

    def hedge(self, step: int) -> str:  # noqa: ARG002
        """Return how sure the time left is after a step."""
        return "about"

    @abstractmethod
    def time_left(self, step: int, seconds: float) -> float | None:
        """Return the seconds left after so many steps and seconds; None if not known yet."""

    def place(self, step: int) -> str:
        """Return how far a run is after a step."""
        epoch = f"epoch {(step - 1) // self._epoch + 1}/{self._steps // self._epoch}"
        return f"{epoch}  step {step}/{self._steps}"

    @abstractmethod
    def lines(self, row: Mapping[str, Any]) -> list[str]:
        """Return the lines that are printed for a row of metrics."""

    @abstractmethod
    def summary(self, row: Mapping[str, Any]) -> str:
        """Return the few numbers of a row that fit on a single line per epoch."""

    @abstractmethod
    def picture(self) -> RenderableType:
        """Return the rows of the last epoch on a terminal."""

    def remark(self, row: Mapping[str, Any]) -> None:
        """Print what else there is to say about a row."""

    # What a run tells.

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, sentence: str, style: str = "") -> None:
        """Print a sentence on a line of its own."""
        self.console.print(Text(printable(sentence), style=style), soft_wrap=True)

    def told(self, sentence: str) -> None:
        """Print a warning as soon as the run gives it."""
        self.say(f"warning: {sentence}", "yellow")

    def resumed(self, step: int) -> None:
        """Say from which step the run is resumed."""
        self.say(f"resumed after step {step}")

    def started(self, job: Job) -> None:
        """Print the plan of the job, and start the progress bar."""
        lines, self._steps, self._epoch = self.introduce(job)
        self._begin, self._spoke, self._now, self._state = self.position(job), 0.0, 0.0, ""
        for line in () if self.terse else lines:
            self.say(line)
        self._task = self._bar.add_task(self.title, total=self._steps, completed=self._begin, state="")
        self._drawn = -math.inf
        if self.console.is_terminal or _is_notebook(self.console):
            # A notebook keeps the last state; on a terminal the result takes its place.
            transient = not self.console.is_jupyter
            self._live = Live(self._whole(), console=self.console, auto_refresh=False, transient=transient)
            self._live.start()

    def stepped(self, step: int, seconds: float) -> None:
        """Move the bar; once, say how long it will take."""
        left = self.time_left(step, seconds)
        if not self.terse and step - self._begin in self.moments and left is not None and step < self._steps:
            self.say(f"{self.hedge(step)} {written(left)} left, judging by the steps so far")
        time = written(seconds) + ("" if left is None else f", {written(left)} left")
        state = f"{self.place(step)}  {time}"
        self._state, self._now = state, seconds
        self._bar.update(self._task, completed=step, state=state)
        self._draw()
        if self._live is None and seconds - self._spoke > SILENCE and step % self._epoch:
            self.say(state)
            self._spoke = seconds

    def ended_epoch(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Print the metrics of an epoch that is over."""
        self.rows = rows
        if self._live is None and self.terse:
            self.say("  ".join([self._state, "; ".join(map(self.summary, rows))]))
        elif self._live is None:
            self.say(self._state)
            for line in (line for row in rows for line in self.lines(row)):
                self.say(f"  {line}")
        self._spoke = self._now
        self._drawn = -math.inf
        self._draw()
        for row in rows:
            self.remark(row)

    def _draw(self) -> None:
        if self._live is None or (self.console.is_jupyter and monotonic() - self._drawn < PAUSE):
            return
        self._live.update(self._whole(), refresh=True)
        self._drawn = monotonic()

    def _whole(self) -> RenderableType:
        return Group(self.picture(), "", self._bar) if self.rows else self._bar


def _is_notebook(console: Console) -> bool:
    """Return whether a console is that of a notebook that can be drawn on again; without ipywidgets it gets lines."""
    return console.is_jupyter and find_spec("ipywidgets") is not None


def number(value: object) -> str:
    """Return a number of metrics in short form."""
    if isinstance(value, float):
        return f"{value:.3f}" if value < 10 else f"{value:.1f}"
    return "" if value is None else str(value)


def numbers(row: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return some metrics of a row on one line."""
    return ", ".join(f"{title} {number(row[name])}" for name, title in titles.items() if name in row)
