"""Carry out `smallgroup study`: run or list it, print its table."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import Progress
from rich.table import Table as Drawn
from rich.text import Text

from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.display.console import CleanConsole, bar_columns, console_for_table
from smallgroup.runtime.text import printable
from smallgroup.study import Plan, Store, Table, carry_out, progress
from smallgroup.study.engines import Engine, LocalEngine, SlurmEngine
from smallgroup.study.formats import grid, sentences
from smallgroup.study.processes import numbers_of, workload
from smallgroup.study.reckoning import reckon
from smallgroup.study.table import check_measurable
from smallgroup.study.work import StudyProgress

WIDTH = 160
"""Columns of a table that nobody's terminal limits."""


class RunsFailedError(Exception):
    """The table is there, but not all that it was to show."""


@dataclass(frozen=True)
class StudyRequest:
    """A user's request to run a study."""

    out: Path
    workers: int = 1
    engine: Engine = field(default_factory=LocalEngine)
    dry_run: bool = False
    retry: bool = False
    lines: bool = False
    as_json: bool = False


def run(plan: Plan, asked: StudyRequest) -> None:
    """Carry a study out and show its table."""
    if asked.dry_run:
        try:
            check_measurable(plan)
        except ValueError as error:
            say(f"note: this study cannot run as it is: {error}", err=True)
        _list(plan, Store(asked.out), asked)
        return
    with _watched(plan, asked) as watch:
        found = carry_out(plan, asked.out, workers=asked.workers, retry=asked.retry, watch=watch, engine=asked.engine)
    if asked.as_json:
        print_json({**found.to_dict(), "files": [str(file) for file in found.files]})
    else:
        show(found.table)
        say("", *found.files)
    if found.failed:
        total = len(plan.runs)
        raise RunsFailedError(
            f"{found.failed} of {total} runs failed; the table names them, and --retry runs them again"
        )


def show(table: Table) -> None:
    """Print the table on the terminal."""
    console = console_for_table(WIDTH)
    titles, rows = grid(table)
    drawn = Drawn(title=Text(printable(table.title)))
    for number, title in enumerate(titles):
        drawn.add_column(title, justify="right" if number else "left")
    for row in rows:
        drawn.add_row(*(Text(printable(text)) for text in row))
    console.print(drawn)
    for said in sentences(table):
        console.print(f"- {printable(said)}")


def _list(plan: Plan, store: Store, asked: StudyRequest) -> None:
    """Print every run, its state, and how long the rest would take."""
    with CleanConsole(stderr=True).status("measuring how long runs take"):
        standing = progress(plan, store, asked.workers, reckon)
    names = _rows_by_run(plan)
    rows = [
        (each.key, each.phase, f"seed {each.config.seed}", standing.states[each.key], names[each.key])
        for each in plan.runs
    ]
    script = None
    if isinstance(asked.engine, SlurmEngine):
        numbers = numbers_of(plan, store, asked.workers)
        script = asked.engine.script(workload(plan, store, "dry-run"), numbers) if numbers else None
    if asked.as_json:
        plain = [dict(zip(("run", "phase", "seed", "state", "rows"), row, strict=True)) for row in rows]
        left = {"seconds_left": standing.seconds_left, "runs_of_unknown_time": standing.unknown}
        job = {} if script is None else {"script": script}
        print_json({"study": plan.name, "runs": plain, **left, **job})
        return
    print_columns(rows)
    said = "not known" if standing.seconds_left is None else f"about {written(standing.seconds_left)}"
    if standing.unknown:
        said += f"; {standing.unknown} runs need data that are missing here"
    say(f"{len(rows)} runs, {standing.count('done')} of them done; time left with {asked.workers} workers: {said}")
    if script is not None:
        say("", *script.split("\n"))


def _rows_by_run(plan: Plan) -> dict[str, str]:
    """Return names of the rows that a run stands in, by its key."""
    names: dict[str, list[str]] = {}
    for line in plan.lines:
        for runs in line.runs.values():
            for run_ in runs.all:
                names.setdefault(run_.key, []).append(line.name)
    return {key: "; ".join(rows) for key, rows in names.items()}


@contextmanager
def _watched(plan: Plan, asked: StudyRequest) -> Iterator[Callable[[StudyProgress], None]]:
    """Show a bar on a terminal; elsewhere, or if lines are asked for, print a line when a run changes."""
    console = CleanConsole(stderr=True)
    total, names = len(plan.runs), _rows_by_run(plan)
    runs = {each.key: f"{each.phase} of seed {each.config.seed} ({names[each.key]})" for each in plan.runs}
    before: dict[str, str] = {}

    def said(standing: StudyProgress) -> str:
        left = "" if standing.seconds_left is None else f", about {written(standing.seconds_left)} left"
        counts = f"{standing.count('done')} of {total} runs done, {standing.count('running')} running"
        return f"{counts}, {standing.count('failed')} failed{left}"

    with Progress(*bar_columns(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(printable(plan.name), total=total, state="")

        def watch(standing: StudyProgress) -> None:
            bar.update(task, completed=standing.count("done") + standing.count("failed"), state=said(standing))
            changed_ = {key: state for key, state in standing.states.items() if before.get(key) != state}
            before.update(changed_)
            if asked.lines:
                for key, state in changed_.items():
                    if state != "waiting":
                        console.print(f"{key} {state}: {printable(runs[key])}", soft_wrap=True)
            elif not console.is_terminal and any(state in ("done", "failed") for state in changed_.values()):
                console.print(said(standing))

        yield watch
