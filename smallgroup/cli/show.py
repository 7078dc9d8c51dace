"""`smallgroup show`: a run on a terminal."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from smallgroup import pages
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.report import Run
from smallgroup.report.charts import Chart
from smallgroup.report.curves import charts_of, thinned
from smallgroup.report.origins import events_of, warnings_of
from smallgroup.report.run import number_at, whole
from smallgroup.report.words import STATES
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import to_plain

BARS = "▁▂▃▄▅▆▇█"
WIDEST = 40
"""Most bars of a curve on a terminal."""
TITLES = {"seconds": "time", "peak_memory_mb": "peak memory", "multiply_adds": "multiply-adds"}
WRITTEN: dict[str, Callable[[Any], str]] = {
    "state": STATES.__getitem__,
    "answer": lambda answer: (
        answer["rule"] if answer["learner"] is None else "{rule}: learner {learner}".format(**answer)
    ),
    "seconds": written,
    "validation_loss": "{:.4f} nats".format,
    "peak_memory_mb": "{:,.0f} MB".format,
    "parameters": "{:,}".format,
    "multiply_adds": "{:,}".format,
}
CHARTS = ("errors", "validation-loss", "derived-error", "agreement", "training-errors", "training-loss")


def run(folder: Path, *, as_json: bool) -> None:
    """Print summary, cell and curves of a run."""
    found = pages.read_one_run(folder)
    if as_json:
        print_json(summary(found))
        return
    print_columns(
        [
            (TITLES.get(name, name.replace("_", " ")), _words(name, value))
            for name, value in summary(found).items()
            if _told(name, value)
        ]
    )
    if found.cell is not None:
        say("", *draw(found.cell).split("\n"))
    rows = [row for chart in charts_of(found) if chart.key in CHARTS for row in curves(chart)]
    if rows:
        say()
        print_columns(rows)
    for sentence in warnings_of(found):
        say("", f"warning: {sentence}")
    for sentence in events_of(found):
        say("", sentence)
    page = folder / pages.REPORT
    say("", f"{page if page.exists() else f'smallgroup report {folder}'} shows more")


def summary(found: Run) -> dict[str, Any]:
    """Return what `--json` prints: known values, and null for the others."""
    training = found.parts.get("training", found)
    return {
        "run": str(found.folder),
        "kind": found.kind,
        "state": found.state,
        "dataset": found.dataset or None,
        "learners": len(found.learners),
        "epochs": len(found.epochs),
        "retained": found.retained if found.kind == "search" and found.result else None,
        "answer": {"rule": found.rule, "learner": found.answering} if found.kind == "search" and found.result else None,
        "validation_error": number_at(found.result, "validation_error"),
        "validation_loss": number_at(found.result, "validation_loss"),
        "balanced_validation_error": number_at(found.result, "balanced_error") if found.kind == "search" else None,
        "test_error": number_at(training.result, "test_error"),
        "balanced_test_error": number_at(training.result, "balanced_error") if training.kind == "training" else None,
        **_sizes(found, training),
        "seconds": number_at(found.result, "seconds"),
        "peak_memory_mb": number_at(found.result, "peak_memory_mb"),
        "genotype": None if found.cell is None else to_plain(found.cell),
    }


def _sizes(found: Run, training: Run) -> dict[str, int | None]:
    """Return the sizes of the trained network or, before there is one, of the network that the config would train."""
    names = ("parameters", "multiply_adds")
    if training.kind == "training" and training.result:
        return {name: whole(training.result.get(name)) for name in names}
    return {name: getattr(found.given.size, name, None) for name in names}


def _told(name: str, value: object) -> bool:
    return value is not None and name != "genotype" and not (name == "learners" and value == 0)


def _words(name: str, value: Any) -> str:  # noqa: ANN401
    written_as = WRITTEN.get(name, "{:.2f} %".format if name.endswith("_error") else str)
    return written_as(value)


def curves(chart: Chart) -> list[tuple[str, str, str, str]]:
    """Return the title, the bars, and the first and last number of each curve."""
    rows = []
    for line in chart.series:
        values = {point.epoch: point.value for point in line.points}
        kept = [values[epoch] for epoch in thinned(sorted(values), WIDEST)]
        ends = f"{line.points[0].value:.4g} → {line.points[-1].value:.4g} {chart.unit}".rstrip()
        rows.append((chart.title, line.name, sparkline(kept), ends))
    return rows


def sparkline(values: Sequence[float]) -> str:
    """Return numbers as bars, the lowest the smallest; equal numbers as bars of half the height."""
    low, high = min(values), max(values)
    if high == low:
        return BARS[len(BARS) // 2] * len(values)
    return "".join(BARS[min(len(BARS) - 1, int((value - low) / (high - low) * len(BARS)))] for value in values)
