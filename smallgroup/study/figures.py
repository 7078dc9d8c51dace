"""Pictures of a study: the primary measure over an axis of its grid, or over the epochs of its searches."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import MaxNLocator

from smallgroup.report.palette import LEARNERS
from smallgroup.runner import read_current_rows
from smallgroup.runtime.files import write_whole
from smallgroup.runtime.text import escape_label
from smallgroup.statistics import summarize
from smallgroup.study.file import Figure
from smallgroup.study.measures import MEASURES
from smallgroup.study.plan import Line, Plan
from smallgroup.study.store import Store
from smallgroup.study.table import Table

FORMATS: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Each with what leaves the date out of it."""
_SIZE, _BESIDE, _LINE = (6.4, 4.2), 3.0, 0.19
"""Inches: of a panel, what a legend beside the panels adds to the width, and a line of that legend."""
_ACROSS = 3
"""Most panels in one row of a figure."""
_TITLE, _LABEL = 72, 36
"""Letters in a line of the title, for each panel across, and of the legend."""
_SPREAD = 0.4
"""Share of the room between two places that curves take at one of them."""
_MARKS, _LINES = "osD^vPX", ("-", "--", ":", "-.")
_BARS = "bars: 95 % bootstrap intervals of the mean over seeds"


@dataclass(frozen=True)
class Curve:
    """Values of all seeds by their place on the axis."""

    name: str
    points: list[tuple[float, list[float]]] = field(default_factory=list)
    panel: str = ""
    """Where on the other axes of the grid: each such place has a panel of its own."""


def draw(plan: Plan, table: Table, store: Store, figure: Figure, path: Path) -> list[Path]:
    """Draw one figure in every format; `path` has no extension. The same study gives the same bytes."""
    places: Sequence[Any] = ()
    if figure.axis is not None:
        curves, note = over_axis(plan, table, figure.axis), _BARS
        label, places = figure.axis, plan.study.grid[figure.axis]
    else:
        curves, unreadable = over_epochs(plan, store)
        label, note = (
            "epochs of the search",
            f"{_BARS}; values: mean of all learners, or of the first where a row takes it",
        )
        note += f"\nwithout {unreadable} runs whose metrics cannot be read" if unreadable else ""
    picture = Picture(layout="constrained")
    panels = panelled(picture, curves)
    for axes in panels:
        axes.set_xlabel(escape_label(label))
        axes.grid(visible=True, alpha=0.3)
        if not _numeric(places):
            axes.set_xticks(range(len(places)), [escape_label(place) for place in places])
        elif all(isinstance(place, int) for place in places):  # epochs too
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel(MEASURES[plan.study.primary].title)
    picture.suptitle(_lines(plan.study.title, _TITLE * min(len(panels), _ACROSS)), fontsize="medium")
    picture.supxlabel(note, fontsize="x-small")
    made = []
    for ending, undated in FORMATS.items():
        drawn = BytesIO()
        with mpl.rc_context({"svg.hashsalt": "smallgroup", "svg.fonttype": "none", "pdf.fonttype": 42}):
            picture.savefig(drawn, format=ending, metadata=undated)
        made.append(path.with_suffix(f".{ending}"))
        write_whole(made[-1], drawn.getvalue())
    return made


def panelled(picture: Picture, curves: Sequence[Curve]) -> list[Axes]:
    """Return a panel for every place, and one legend of all rows beside them, where it hides nothing."""
    places = list(dict.fromkeys(curve.panel for curve in curves)) or [""]
    names = list(dict.fromkeys(curve.name for curve in curves))
    down, across = math.ceil(len(places) / _ACROSS), min(len(places), _ACROSS)
    grid = picture.subplots(down, across, sharey=True, squeeze=False)
    panels: list[Axes] = list(grid.flat)[: len(places)]
    for unused in list(grid.flat)[len(places) :]:
        unused.remove()
    for axes, place in zip(panels, places, strict=True):
        axes.set_title(_lines(place, _TITLE), fontsize="small")
        own = [curve for curve in curves if curve.panel == place]
        for number, curve in enumerate(own):
            draw_curve(axes, curve, names.index(curve.name), beside(number, own))
    shown = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if shown:
        picture.legend(shown.values(), shown.keys(), fontsize="small", loc="outside right upper")
    height = max(_SIZE[1] * down, _LINE * sum(label.count("\n") + 1 for label in shown))
    picture.set_size_inches(_SIZE[0] * across + _BESIDE, height)
    return panels


def over_axis(plan: Plan, table: Table, axis: str) -> list[Curve]:
    """Return a curve for every row and every point of the other axes."""
    places = list(plan.study.grid[axis])
    curves: dict[tuple[str, str], Curve] = {}
    for line, row in zip(plan.lines, table.rows, strict=True):
        if values := list(row.entries[plan.study.primary].values.values()):
            panel = line.place(without=axis)
            curve = curves.setdefault((panel, line.row.name), Curve(line.row.name, panel=panel))
            place = line.point[axis]
            curve.points.append((float(place) if _numeric(places) else float(places.index(place)), values))
    return list(curves.values())


def _lines(text: str, width: int) -> str:
    """Break a long text into lines, and escape characters that begin a formula."""
    return textwrap.fill(escape_label(text), width)


def _numeric(places: Sequence[Any]) -> bool:
    return all(isinstance(place, int | float) for place in places)


def beside(number: int, curves: Sequence[Curve]) -> float:
    """Return the sideways shift of a curve, so that its error bars do not hide those of others at the same place."""
    places = sorted({x for curve in curves for x, _ in curve.points})
    gap = min((after - before for before, after in pairwise(places)), default=0.0)
    return _SPREAD * gap * (number - (len(curves) - 1) / 2) / len(curves)


def draw_curve(axes: Axes, curve: Curve, number: int, aside: float) -> None:
    """Draw means over seeds, with 95 % intervals."""
    found = [summarize(values) for _, values in curve.points]
    means = np.array([one.mean for one in found])
    low = np.array([one.interval[0] if one.interval else one.mean for one in found])
    high = np.array([one.interval[1] if one.interval else one.mean for one in found])
    errors = np.array([means - low, high - means])
    axes.errorbar(
        [x + aside for x, _ in curve.points], means, errors, capsize=3, label=_lines(curve.name, _LABEL), **look(number)
    )


def look(number: int) -> dict[str, Any]:
    """Return the look of a curve: 28 curves all differ; where a color comes again, mark and line are others."""
    again = number // len(LEARNERS)
    color, mark = LEARNERS[number % len(LEARNERS)][0], _MARKS[(number + again) % len(_MARKS)]
    return {"color": color, "marker": mark, "linestyle": _LINES[again % len(_LINES)]}


def over_epochs(plan: Plan, store: Store) -> tuple[list[Curve], int]:
    """Return a curve for every row that has runs, epoch by epoch, and the runs that cannot be read."""
    curves, unreadable = [], set()
    for line in plan.lines:
        courses = []
        for seed, runs in line.runs.items():
            try:
                courses.append(_course(store, line, seed, plan.study.primary))
            except (OSError, ValueError):
                unreadable.add(runs.search.key)
        epochs = sorted({epoch for course in courses for epoch in course})
        points = [(epoch + 1.0, [course[epoch] for course in courses if epoch in course]) for epoch in epochs]
        if points:
            curves.append(Curve(line.row.name, points, line.place()))
    return curves, len(unreadable)


def _course(store: Store, line: Line, seed: int, measure: str) -> dict[int, float]:
    """Return by epoch the mean over all learners, or the value of the first one, of a finished run."""
    run = line.runs[seed].search
    if store.result(run) is None:
        return {}
    found: dict[int, list[float]] = {}
    for row in read_current_rows(store.place(run) / "metrics.jsonl"):
        if line.row.take == "first" and row.get("learner") != 0:
            continue
        value = _of_row(row, measure, run.config.data.dataset)
        if value is None:
            continue
        epoch = row.get("epoch")
        if not isinstance(epoch, int) or not math.isfinite(value):
            raise ValueError(f"a row of metrics must have an epoch and finite numbers, but it has {epoch!r:.60}")
        found.setdefault(epoch, []).append(value)
    return {epoch: sum(values) / len(values) for epoch, values in found.items()}


def _of_row(row: Mapping[str, Any], measure: str, dataset: str) -> float | None:
    value = row.get({"validation_error": "w_error", "validation_loss": "w_validation_loss"}.get(measure, measure))
    if isinstance(value, Mapping):
        value = value.get(dataset)
    return float(value) if isinstance(value, int | float) else None
