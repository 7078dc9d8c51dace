"""What is seen of a search: the learners side by side, and the cell so far."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from smallgroup.display.display import FIRST_STEPS, Display, number, numbers
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.brief import brief
from smallgroup.phases.search.timing import Estimate
from smallgroup.runner import Job
from smallgroup.spaces.drawing import draw, one_line
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import from_plain

TITLES = {
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


class SearchDisplay(Display):
    """Prints the progress of a search."""

    def __init__(self, console: Console | None = None, title: str = "", *, terse: bool = False) -> None:
        super().__init__(console, title, terse=terse)
        self._said: set[tuple[int, str]] = set()

    def introduce(self, job: Job) -> tuple[list[str], int, int]:
        """Return the first lines of a search: data, learners, steps and memory."""
        assert isinstance(job, SearchJob)
        self._spaces = [searcher.relaxed.space.name for searcher in job.searchers]
        self._kind = job.course.kind
        # When more is moved than before, in whichever stage: steps then take longer.
        self._turns = tuple(one.begin - job.position for one in job.course.stretches if one.kind == "all")
        self._estimate = Estimate(job)
        self._job, self._shown = job, job.position
        return brief(job), job.course.steps, job.course.steps_per_epoch

    def position(self, job: Job) -> int:
        """Return the place in the schedule: steps that were taken back do not count."""
        assert isinstance(job, SearchJob)
        return job.position

    def stepped(self, step: int, seconds: float) -> None:
        """Show the step of the schedule; one whose epoch is taken back is shown as taken, the next one again."""
        position = step - self._job.repeated
        went_back = position <= self._shown
        taken, self._shown = (self._shown + 1 if went_back else position), position
        super().stepped(taken, seconds)

    @property
    def moments(self) -> tuple[int, ...]:
        """Once more when the architecture moves: those steps take the longest."""
        return (FIRST_STEPS, *(turn + FIRST_STEPS for turn in self._turns if turn > 0))

    def hedge(self, step: int) -> str:
        """Return how sure the time left is: steps of V alone spend a larger part outside of the networks."""
        return "about" if self._kind(step - 1) == "all" else "at most about"

    def time_left(self, step: int, seconds: float) -> float | None:  # noqa: ARG002
        """Return the seconds left; steps of V alone are cheaper than others, which the estimate knows."""
        return self._estimate.left(self._shown, seconds)

    def lines(self, row: Mapping[str, Any]) -> list[str]:
        """Return two lines on a learner."""
        return [
            f"learner {row['learner']}: {numbers(row, TITLES)}",
            f"  cell {one_line(self._genotype(row))}",
        ]

    def summary(self, row: Mapping[str, Any]) -> str:
        """Return the loss and error of W on validation images."""
        shown = {name: TITLES[name] for name in ("validation_loss", "w_error")}
        return f"learner {row['learner']}: {numbers(row, shown)}"

    def picture(self) -> RenderableType:
        """Return the table of learners, and the cell of the one that would be retained."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("learner", justify="right")
        shown = [name for name in TITLES if any(name in row for row in self.rows)]
        for name in shown:
            table.add_column(TITLES[name], justify="right")
        for row in self.rows:
            table.add_row(str(row["learner"]), *(number(row.get(name)) for name in shown))
        best = min(self.rows, key=lambda row: float(row["w_validation_loss"]))
        cell = Text(f"cell of learner {best['learner']} so far\n" + draw(self._genotype(best)))
        return Group(table, "", cell)

    def remark(self, row: Mapping[str, Any]) -> None:
        """Print signs of a collapse, each when it appears, and the end of a learner's search."""
        for sign, sentence in row["warnings"].items():
            if (row["learner"], sign) not in self._said:
                self.say(f"warning: learner {row['learner']}: {sentence}", "yellow")
                self._said.add((row["learner"], sign))
        if row.get("rebuilt"):
            self.say(f"learner {row['learner']}: {row['rebuilt']}")
        if row.get("rolled_back"):
            self.say(f"learner {row['learner']}: its method rolls back, {row['rolled_back']}")
        if row.get("ended"):
            self.say(f"learner {row['learner']}: its method ended its search: {row['ended']}")

    def _genotype(self, row: Mapping[str, Any]) -> Genotype:
        return from_plain(self._spaces[row["learner"]], row["genotype"])
