"""What the commands of `smallgroup bench` measure, and how they show it: a bar on stderr, a table on stdout."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from smallgroup.bench import memory as peaks
from smallgroup.bench import operations as single
from smallgroup.bench import scaling as growth
from smallgroup.bench import step as steps
from smallgroup.bench.cases import BenchRow
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.machine import head, measuring_on
from smallgroup.bench.operation import MeasuredOperation
from smallgroup.bench.paths import fast_path
from smallgroup.bench.plans import ScalingPoint, StepPlan
from smallgroup.bench.timing import Turn, TurnWatch
from smallgroup.cli.bench_asked import BenchRequest
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_json
from smallgroup.display.console import CleanConsole, console_for_table
from smallgroup.runtime.allocator import keep_memory
from smallgroup.runtime.device import choose_device
from smallgroup.runtime.device_names import AUTO
from smallgroup.runtime.environment import threads
from smallgroup.runtime.memory import memory_explained

WIDTH = 150
"""Columns of a table that nobody's terminal limits."""
ADVICE = "lower --batch, --cells or --channels, or take --quick"


def step(plan: StepPlan, asked: BenchRequest) -> None:
    """Print the tables of `bench step`."""
    with _measuring(asked, steps.ROUNDS) as (path, rounds, watch):
        found = steps.measure(plan, path, rounds, watch)
        top = {**head(path), "rounds": rounds}
    if asked.as_json:
        print_json({**found.to_dict(), **top})
        return
    table = _table(
        *("step", "plain s", "fast s", "plain / fast", "lowest to highest"),
        *("CPU: plain / fast", "at least", "x first", "difference"),
    )
    for row, least in zip(found.rows, found.at_least, strict=True):
        relative = f"{row.fast_seconds / found.rows[0].fast_seconds:.2f}"
        table.add_row(
            *_cells(row),
            f"{row.cpu_ratio:.2f}",
            "" if least is None else f"{least:g}",
            relative,
            f"{row.difference:.0e}",
        )
    _show(top, table)
    if found.growth:
        table = _table("larger group, fast", "larger s", "smaller s", "ratio", "lowest to highest", "at most")
        for grown in found.growth:
            smaller, larger = (_seconds(value) for value in grown.seconds)
            limit = "" if grown.at_most is None else f"{grown.at_most:g}"
            table.add_row(grown.name, larger, smaller, f"{grown.ratio:.2f}", _range(grown.spread), limit)
        console_for_table(WIDTH).print(table)


def operations(cases: Sequence[MeasuredOperation], asked: BenchRequest) -> None:
    """Print the table of `bench ops`."""
    least = single.QUICK_LEAST if asked.quick else single.LEAST
    with _measuring(asked, single.ROUNDS) as (path, rounds, watch):
        rows = single.measure(cases, path, rounds, least=least, watch=watch)
        top = {**head(path), "rounds": rounds}
    if asked.as_json:
        print_json({"rows": [row.to_dict() for row in rows], **top})
        return
    table = _table(
        "operation", "plain ms", "fast ms", "plain / fast", "lowest to highest", "CPU: plain / fast", "difference"
    )
    for row in rows:
        times = (f"{1000 * value:.3f}" for value in (row.plain_seconds, row.fast_seconds))
        ratios = f"{row.ratio:.2f}", _range(row.spread), f"{row.cpu_ratio:.2f}"
        table.add_row(row.name, *times, *ratios, f"{row.difference:.0e}")
    first = cases[0]
    _show({**top, "sizes": f"C={first.channels}, batch {first.batch}, {first.size}x{first.size}"}, table)


def scaling(base: GroupStep, points: Sequence[ScalingPoint], asked: BenchRequest) -> None:
    """Print the tables of `bench scaling`."""
    with _measuring(asked, growth.ROUNDS) as (path, rounds, watch):
        found = growth.measure(points, path, rounds, watch)
        top = {**head(path), "rounds": rounds}
    if asked.as_json:
        print_json({**found, **top})
        return
    table = _table("size", "fast s", "lowest to highest", "exponent")
    before = ""
    for row in found["rows"]:
        fit, text = found["exponents"][row["dimension"]], ""
        if row["dimension"] != before:
            text = f"{fit['exponent']:.2f} from {fit['smallest']} on, within {100 * fit['deviation']:.0f} %"
            if before:
                table.add_section()
        before = row["dimension"]
        table.add_row(row["name"], _seconds(row["fast_seconds"]), _range(row["spread"], 3), text)
    _show({**top, "from": base.name}, table)


def memory(cases: Sequence[GroupStep], asked: BenchRequest) -> None:
    """Print the table of `bench memory`."""
    with threads(asked.threads), measuring_on(choose_device(asked.device or AUTO)), _bar() as move:
        path = fast_path(asked.path)
        rows = peaks.measure(cases, path, lambda name, done, of: move(name, done, of, ""))
        top = head(path)
    if asked.as_json:
        print_json({"rows": rows, **top})
        return
    table = _table("step", "plain MB", "fast MB", "fast / plain", "at most")
    for row in rows:
        sizes_ = (f"{row[key] / 2**20:,.0f}" for key in ("plain_bytes", "fast_bytes"))
        limit = "" if row["at_most"] is None else f"{row['at_most']:g}"
        table.add_row(row["name"], *sizes_, f"{row['ratio']:.2f}", limit)
    _show(top, table)


@contextmanager
def _measuring(asked: BenchRequest, usual: int) -> Iterator[tuple[str, int, TurnWatch]]:
    """Yield the path, the rounds and the watcher; the path comes last, because it may have to be compiled."""
    keep_memory()  # as runs do; it serves both contenders
    with threads(asked.threads), measuring_on(choose_device(asked.device or AUTO)), memory_explained(ADVICE):
        path = fast_path(asked.path)
        with _watched() as watch:
            yield path, asked.rounds_or(usual), watch


# Showing.


def _table(first: str, *numbers: str) -> Table:
    table = Table(first)
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _show(top: Mapping[str, Any], table: Table) -> None:
    """Print the conditions of the measurement, and its numbers."""
    console, words = console_for_table(WIDTH), dict(top)
    rounds = words.pop("rounds", None)
    count, version = words.pop("threads"), words.pop("torch")
    lines = [
        f"{count} thread{'s' * (count != 1)}, torch {version}, {words.pop('cpu')}",
        f"path {words.pop('path')}" + ("" if rounds is None else f", median of {rounds} round{'s' * (rounds != 1)}"),
        *(f"{name}: {value}" for name, value in words.items()),
    ]
    for line in lines:
        console.print(line, soft_wrap=True)
    console.print(table)


def _cells(row: BenchRow) -> tuple[str, ...]:
    return row.name, _seconds(row.plain_seconds), _seconds(row.fast_seconds), f"{row.ratio:.2f}", _range(row.spread)


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _range(values: Sequence[float], digits: int = 2) -> str:
    low, high = values
    return f"{low:.{digits}f} to {high:.{digits}f}"


# Watching.


@contextmanager
def _bar() -> Iterator[Any]:
    """Yield a function that moves a bar on a terminal's stderr, and does nothing elsewhere."""
    console = CleanConsole(stderr=True)
    columns = (BarColumn(bar_width=30), TextColumn("{task.fields[state]}"), TextColumn("{task.description}"))
    # Drawn between turns alone: a thread that draws all the time would be measured too.
    bar = Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)
    with bar as progress:
        task = progress.add_task("", total=None, state="")

        def move(name: str, done: int, of: int, state: str) -> None:
            progress.update(task, description=name, completed=done, total=of, state=state, refresh=True)

        yield move


@contextmanager
def _watched() -> Iterator[TurnWatch]:
    with _bar() as move:

        def watch(turn: Turn) -> None:
            where = f"round {turn.round}" if turn.round else "warming up"
            left = "" if turn.left is None else f", {written(turn.left)} left"
            move(turn.name, turn.number, turn.turns, where + left)

        yield watch
