"""`smallgroup bench outcome`: what whole runs are worth beside other uses of the same CPU time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smallgroup.bench.machine import head
from smallgroup.bench.outcome.plan import OutcomeTable, Unit, tables
from smallgroup.bench.outcome.table import HEADER, OutcomeRow, cells, markdown, rows
from smallgroup.bench.outcome.work import Crew, prepare, waiting
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.runtime.files import write_whole

TABLE = "table.md"


def run(folder: Path, only: str, workers: int, *, quick: bool, dry_run: bool, as_json: bool) -> None:
    """Measure what is not measured yet, and print every table."""
    chosen = [table for table in tables(folder, quick=quick) if only in table.task.name]
    left = waiting(folder, chosen)
    if dry_run:
        _announce(chosen, left)
        return
    prepare(folder, chosen)
    crew = Crew(folder, lambda unit, what: say(f"{_name(unit)} {what}", err=True), quick=quick)
    complete = crew.carry_out(left, workers)
    write_whole(folder / TABLE, markdown(folder, tables(folder, quick=quick)))
    found = {table.task.name: rows(folder, table) for table in chosen}
    if as_json:
        print_json({**head("auto"), "tables": {name: [_plain(row) for row in each] for name, each in found.items()}})
    else:
        for table in chosen:
            say("", f"{table.task.name}: {table.task.seconds:.0f} CPU seconds for everything", "")
            print_columns([HEADER, *cells(found[table.task.name])])
    if not complete:
        raise RuntimeError("some outcomes are not measured yet; run the same command again to continue")


def _announce(chosen: Sequence[OutcomeTable], left: Sequence[Unit]) -> None:
    seconds = sum(unit.task.seconds for unit in left)
    for table in chosen:
        own = sum(unit.task == table.task for unit in left)
        say(f"{table.task.name}: {own} of {len(table.arms) * len(table.seeds)} outcomes are not measured yet")
    say(f"about {written(seconds)} of CPU time")


def _name(unit: Unit) -> str:
    return f"{unit.task.name}, {unit.arm}, seed {unit.seed}"


def _plain(row: OutcomeRow) -> dict[str, Any]:
    compared = row.paired
    return {
        "arm": row.arm,
        "test_error": row.error,
        "deviation": row.deviation,
        "run_minus_arm": None if compared is None else compared.difference,
        "interval": None if compared is None else compared.interval,
        "verdict": None if compared is None else compared.verdict,
        "outcomes": [one.to_dict() for one in row.outcomes.values()],
    }
