"""How a search is watched: a display that is drawn again and again on a terminal, lines elsewhere. All on stderr."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from smallgroup.cli.durations import written
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.brief import brief
from smallgroup.phases.search.timing import Estimate
from smallgroup.runner import Job, Watcher
from smallgroup.runtime.checkpoints import Checkpoint
from smallgroup.spaces.drawing import draw, one_line
from smallgroup.spaces.genotypes import from_plain

FIRST_STEPS = 3
"""After so many steps it is said how long all of them will take."""
NUMBERS = {
    "v_loss": "loss V",
    "w_loss": "loss W",
    "validation_loss": "validation",
    "v_error": "error V %",
    "w_error": "error W %",
    "derived_error": "derived %",
    "agreement": "agreement",
    "skips": "skips",
}
"""Columns of the table of learners: of the rows of metrics, and their titles."""


class Display(Watcher):
    """Tells a search to whoever sits before the terminal, or reads the log."""

    def __init__(self, console: Console | None = None, title: str = "") -> None:
        self.console = console or Console(stderr=True)
        self.title = title
        self.rows: Sequence[Mapping[str, Any]] = ()
        self.left: float | None = None
        self._said: set[tuple[int, str]] = set()
        self._live: Live | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[state]}"),
            auto_refresh=False,
        )

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, sentence: str, style: str = "") -> None:
        """A line of its own."""
        self.console.print(Text(sentence, style=style), soft_wrap=True)

    # What a run tells.

    def resumed(self, checkpoint: Checkpoint) -> None:
        """Where it goes on, and what was damaged."""
        for sentence in checkpoint.passed_over:
            self.say(f"warning: {sentence}", "yellow")
        self.say(f"resumed after step {checkpoint.step}")

    def started(self, job: Job) -> None:
        """What is about to happen."""
        assert isinstance(job, SearchJob)
        self.job, self.estimate, self.begin = job, Estimate(job), job.step
        for line in brief(job):
            self.say(line)
        self._task = self._bar.add_task(self.title, total=job.schedule.steps, completed=job.step, state="")
        if self.console.is_terminal:
            self._live = Live(self._picture(), console=self.console, auto_refresh=False, transient=True)
            self._live.start()

    def stepped(self, step: int, seconds: float) -> None:
        """Move the bar; once, say how long it will take."""
        self.left = self.estimate.left(step, seconds)
        if step - self.begin == FIRST_STEPS and self.left is not None and step < self.job.schedule.steps:
            self.say(f"about {written(self.left)} to go, as the first steps went")
        epoch = self.job.schedule.epoch(step - 1) + 1
        time = f"{written(seconds)}" + ("" if self.left is None else f", {written(self.left)} left")
        state = f"epoch {epoch}/{self.job.config.epochs}  step {step}/{self.job.schedule.steps}  {time}"
        self._bar.update(self._task, completed=step, state=state)
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    def ended_epoch(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """How the learners stand."""
        self.rows = rows
        if self._live is None:
            self.say(f"{self._bar.tasks[0].fields['state']}".strip())
            for row in rows:
                self.say(f"  learner {row['learner']}: {_numbers(row)}")
                self.say(f"    cell {one_line(self._genotype(row))}")
        else:
            self._live.update(self._picture(), refresh=True)
        for row in rows:
            self._warn(row)

    def _warn(self, row: Mapping[str, Any]) -> None:
        """Signs of a collapse, each when it appears; and the end of a learner's search."""
        for sign, sentence in row["warnings"].items():
            if (row["learner"], sign) not in self._said:
                self.say(f"warning: learner {row['learner']}: {sentence}", "yellow")
                self._said.add((row["learner"], sign))
        if row.get("ended"):
            self.say(f"learner {row['learner']}: its method ends its search: {row['ended']}")

    # The picture on a terminal.

    def _picture(self) -> RenderableType:
        if not self.rows:
            return self._bar
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("learner", justify="right")
        shown = [name for name in NUMBERS if any(name in row for row in self.rows)]
        for name in shown:
            table.add_column(NUMBERS[name], justify="right")
        for row in self.rows:
            table.add_row(str(row["learner"]), *(_number(row.get(name)) for name in shown))
        best = min(self.rows, key=lambda row: float(row["w_validation_loss"]))
        cell = Text(f"cell of learner {best['learner']} so far\n" + draw(self._genotype(best)))
        return Group(table, "", cell, "", self._bar)

    def _genotype(self, row: Mapping[str, Any]) -> Any:  # noqa: ANN401
        return from_plain(self.job.searchers[row["learner"]].relaxed.space.name, row["genotype"])


def _numbers(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{title} {_number(row[name])}" for name, title in NUMBERS.items() if name in row)


def _number(value: object) -> str:
    if value is None:
        return ""
    return (
        f"{value:.3f}"
        if isinstance(value, float) and value < 10
        else f"{value:.1f}"
        if isinstance(value, float)
        else str(value)
    )
