"""Carry out `smallgroup bench compare`: read two measurements, print what became slower or faster."""

from pathlib import Path

from smallgroup.bench.compare import BenchComparison, compare
from smallgroup.cli.output import print_columns, print_json, say


def run(before: Path, after: Path, *, as_json: bool) -> bool:
    """Print what changed, and return whether no row is slower."""
    found = compare(before, after)
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found)
    return not found.slower


def _show(found: BenchComparison) -> None:
    say(*(f"note: {note}" for note in found.notes), *([""] if found.notes else []))
    header = ("row", "measured", "before", "after", "rounds before", "rounds after", "change")
    print_columns(
        [
            header,
            *(
                (
                    row.name,
                    row.what,
                    f"{row.before:.4g}",
                    f"{row.after:.4g}",
                    _range(row.before_range),
                    _range(row.after_range),
                    row.change,
                )
                for row in found.rows
            ),
        ]
    )
    for names, where in ((found.only_before, "before"), (found.only_after, "after")):
        for name in names:
            say(f"only {where}: {name}")


def _range(values: tuple[float, float]) -> str:
    low, high = values
    return f"{low:.4g} to {high:.4g}"
