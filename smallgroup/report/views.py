"""Cells through the epochs, curves, and heat maps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from smallgroup.report import palette
from smallgroup.report.axes import in_digits
from smallgroup.report.cells import DrawnCell, draw_cell, drawn, shares_of, slots_of
from smallgroup.report.charts import Chart, draw_chart
from smallgroup.report.curves import charts_of, thinned
from smallgroup.report.detail import Detail
from smallgroup.report.heat import draw_heat
from smallgroup.report.markup import Markup, render
from smallgroup.report.run import Run, table_at
from smallgroup.report.shapes import svg
from smallgroup.spaces import SPACES, definition_of

HOW_TO_READ = (
    "Point at a chart, or reach it with the tab key and move with the arrow keys, to read its numbers. Legends switch "
    "lines off and on."
)
HINT = "Point at a row, or reach it with the tab key, for the alternatives."


@dataclass
class Frames:
    """The data of the page's script: cells and scores by epoch. Filled while sections are made."""

    detail: Detail = field(default_factory=Detail)
    cells: dict[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the data that the page's script reads."""
        names = {name: [color, palette.on(color)] for name, color in palette.OPERATIONS.items()}
        return {"operations": names, "cells": self.cells}


@dataclass(frozen=True)
class CellCourse:
    """One kind of cell of one learner over the epochs."""

    learner: int
    kind: str
    cells: Mapping[int, DrawnCell]
    tables: Mapping[int, Any]


def courses_of(run: Run, most: int) -> list[CellCourse]:
    """Return every drawable cell by learner and kind, of at most so many epochs."""
    made = []
    for k in run.learners:
        cells: dict[str, dict[int, DrawnCell]] = {}
        tables: dict[str, dict[int, Any]] = {}
        for epoch in thinned(run.epochs, most):
            row = run.row(k, epoch)
            genotype = None if row is None else run.genotype(row)
            if row is None or genotype is None:
                continue
            scores = {
                kind: found
                for kind in definition_of(genotype.space).kinds
                if (found := table_at(row, kind)) is not None
            }
            for kind, cell in drawn(genotype, scores).items():
                cells.setdefault(kind, {})[epoch] = cell
                if kind in scores:
                    tables.setdefault(kind, {})[epoch] = scores[kind]
        made += [CellCourse(k, kind, found, tables.get(kind, {})) for kind, found in cells.items()]
    return made


def cells_section(run: Run, frames: Frames, prefix: str) -> Markup | None:
    """Draw every learner's cells, and a slider through the epochs."""
    courses = courses_of(run, frames.detail.frames)
    if not courses:
        return None
    figures = []
    for course in courses:
        name = f"{prefix}{course.learner}-{course.kind}"
        slots, last = slots_of(list(course.cells.values())), max(course.cells)
        frames.cells[name] = _frames(run, course)
        drawing = draw_cell(course.cells[last], f"learner {course.learner}", slots, frame=name)
        title = f"Learner {course.learner}, {course.cells[last].title}"
        kept = " (retained)" if course.learner == run.retained and run.result else ""
        figures.append((f"{title}{kept}", svg(drawing)))
    epochs = sorted({epoch for course in courses for epoch in course.cells})
    about = (
        "Each node is a lane. Each row is an operation that leads from a lane into a node. The number, and the bar "
        "below it, is the operation's share of its edge. The tick marks the uniform level. "
        "The thicker the line, the more the edge is decided."
    ) + _thinned(run, len(epochs))
    return render("cells.html", prefix=prefix, about=about, epochs=epochs, hint=HINT, figures=figures)


def _frames(run: Run, course: CellCourse) -> dict[str, Any]:
    """Return rows of each epoch as [node, source, operation, edge], and the shares of every edge in ten-thousandths."""
    kind = SPACES[run.space(course.learner)].kinds[course.kind] if run.space(course.learner) in SPACES else None
    epochs = {}
    for epoch, cell in course.cells.items():
        first = len(cell.inputs)
        rows = [
            [node, way.source, way.operation, way.edge]
            for node, ways in enumerate(cell.nodes, start=first)
            for way in ways
        ]
        scores = course.tables.get(epoch)
        known = kind is not None and scores is not None
        shares = [dict(shares_of(kind.operations, row)) for row in scores] if known and kind and scores else []
        names = kind.operations if kind else ()
        epochs[str(epoch)] = {
            "rows": rows,
            "output": list(cell.output),
            "shares": [[round(10_000 * one[name]) if name in one else None for name in names] for one in shares],
        }
    edges = [list(edge) for edge in kind.edges] if kind else []
    return {"operations": list(kind.operations) if kind else [], "edges": edges, "epochs": epochs}


def chart_figure(chart: Chart, prefix: str, detail: Detail) -> Markup:
    """Draw a chart with its legend, tooltips and numbers."""
    return render(
        "chart.html",
        chart=chart,
        anchor=f"{prefix}{chart.key}",
        svg=svg(draw_chart(chart)),
        legend=[
            (one, palette.paint(palette.series(one.color), standalone=False), palette.dash(one.dash))
            for one in chart.series
        ],
        head=[chart.x_name, *(one.name for one in chart.series)],
        **_numbers(chart, detail.rows),
    )


def _numbers(chart: Chart, most: int) -> dict[str, object]:
    """Return the numbers of a chart, each with its file and line, and text about them."""
    epochs = thinned(chart.epochs, most)
    rows = []
    for epoch in epochs:
        points = [(one, one.at(epoch)) for one in chart.series]
        fields = [
            None
            if point is None
            else (in_digits(point.value), point.line, f"{one.file} line {point.line}: {one.source}")
            for one, point in points
        ]
        rows.append((epoch, fields))
    left_out = len(chart.epochs) - len(epochs)
    files = list(dict.fromkeys(one.file for one in chart.series))
    file = files[0] if len(files) == 1 else "the metrics.jsonl of each run"
    more = f" {left_out} of {len(chart.epochs)} epochs are left out here; {file} has them." if left_out else ""
    sources = "; ".join(dict.fromkeys(one.source for one in chart.series))
    about = f"Keys of {file}: {sources}. Each number names its line when pointed at.{more}"
    return {"rows": rows, "sources": about}


def curves_section(run: Run, prefix: str, detail: Detail) -> Markup | None:
    """Return the section with all curves of a run."""
    charts = charts_of(run)
    if not charts:
        return None
    figures = [chart_figure(chart, prefix, detail) for chart in charts]
    return render("grid.html", anchor=f"{prefix}curves", title="Curves", about=HOW_TO_READ, figures=figures)


def _thinned(run: Run, shown: int) -> str:
    """Return a sentence on epochs that are left out; empty if all are there."""
    left = len(run.epochs) - shown
    return f" {left} of {len(run.epochs)} epochs are left out here; metrics.jsonl has all." if left > 0 else ""


def heat_section(run: Run, frames: Frames, prefix: str) -> Markup | None:
    """Draw the architecture weights over time, a panel per learner."""
    panels: dict[int, list[tuple[str, Markup, str]]] = {}
    shown = len(run.epochs)
    for course in courses_of(run, frames.detail.frames):
        if len(course.tables) < 2 or run.space(course.learner) not in SPACES:
            continue
        kind = SPACES[run.space(course.learner)].kinds[course.kind]
        shown = min(shown, len(course.tables))
        name = f"{prefix}{course.learner}-{course.kind}"
        drawing = draw_heat(kind, course.tables, f"learner {course.learner}", name if name in frames.cells else "")
        panels.setdefault(course.learner, []).append((kind.title.capitalize(), svg(drawing), drawing.description))
    if not panels:
        return None
    made = [(f"Learner {k}", render("heat.html", figures=figures)) for k, figures in panels.items()]
    about = "The share of every operation on every edge, epoch by epoch (key scores of metrics.jsonl)."
    about += _thinned(run, shown)
    return render("weights.html", anchor=f"{prefix}weights", about=about, name=f"{prefix}heat", panels=made)
