"""Figures of results by matplotlib, for notebooks and scripts."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.training import MutualResult, TrainResult
from smallgroup.report.palette import LEARNERS, NEUTRAL
from smallgroup.runtime.text import escape_label

MOST_NAMED = 20
"""Classes of a confusion matrix whose names are readable along its axes."""
Rows = Sequence[Mapping[str, Any]]


class ResultFigure(Figure):
    """A figure that notebooks display by itself, without pyplot, which would display it a second time."""

    def _repr_png_(self) -> bytes:
        with BytesIO() as file:
            self.savefig(file, format="png", dpi=100)
            return file.getvalue()


def figure_of(result: SearchResult | TrainResult | MutualResult) -> Figure:
    """Return the curves of a result; of a training also its confusion matrix, if test images were looked at."""
    figure, left, right = _two_axes()
    rows = result.history
    if isinstance(result, SearchResult):
        _curves(left, rows, {"w_error": "W", "v_error": "V"}, "validation error, %")
        _curves(right, rows, {"w_validation_loss": "W"}, "validation loss")
        return figure
    _curves(left, rows, {"train_error": "training", "validation_error": "validation"}, "error, %")
    if isinstance(result, TrainResult) and result.confusion is not None:
        _confusion(right, np.array(result.confusion), list(result.class_errors or {}))
    else:
        _curves(right, rows, {"loss": "training"}, "loss")
    return figure


def compared(curves: Mapping[str, Rows], sizes: Mapping[str, tuple[float, float | None]]) -> Figure:
    """Return the training curves of several networks, and their test error against their multiply-adds."""
    figure, left, right = _two_axes()
    for place, (name, rows) in enumerate(curves.items()):
        points = _points(rows, "train_error")
        left.plot(*points, color=LEARNERS[place % len(LEARNERS)][0], marker=_marker(points), label=escape_label(name))
    _named(left, "epoch", "training error, %")
    for place, (name, (cost, error)) in enumerate(sizes.items()):
        if error is not None:
            right.plot([cost], [error], "o", color=LEARNERS[place % len(LEARNERS)][0], label=escape_label(name))
    right.margins(0.3)
    _named(right, "multiply-adds", "test error, %")
    right.set_ylim(bottom=0)
    return figure


def _two_axes() -> tuple[Figure, Axes, Axes]:
    figure = ResultFigure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    return figure, left, right


def _curves(axes: Axes, rows: Rows, keys: Mapping[str, str], title: str) -> None:
    """Draw a line per learner and key; learners differ in color, keys in their dashes."""
    learners = sorted({row.get("learner") or 0 for row in rows})
    for style, (key, name) in zip(("-", "--"), keys.items(), strict=False):
        for k in learners:
            points = _points([row for row in rows if (row.get("learner") or 0) == k], key)
            if points[0]:
                label = f"learner {k}, {name}" if len(learners) > 1 else name
                color = LEARNERS[k % len(LEARNERS)][0]
                axes.plot(*points, style, color=color, marker=_marker(points), label=label)
    _named(axes, "epoch", title)


def _points(rows: Rows, key: str) -> tuple[list[int], list[float]]:
    """Return epochs, counted from 1 as on the page of a run, and the values that are there."""
    known = [(int(row["epoch"]) + 1, float(row[key])) for row in rows if isinstance(row.get(key), int | float)]
    return [epoch for epoch, _ in known], [value for _, value in known]


def _marker(points: tuple[list[int], list[float]]) -> str:
    """Return a marker for short curves: a line of one epoch is not seen without."""
    return "o" if len(points[0]) <= 10 else ""


def _named(axes: Axes, across: str, up: str) -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(color=NEUTRAL["grid"][0], linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="small")


def _confusion(axes: Axes, confusion: "np.ndarray[Any, Any]", classes: Sequence[str]) -> None:
    """Draw test images by their class (rows) and the class they were given (columns)."""
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="cividis", vmin=0, vmax=1)
    if len(classes) <= MOST_NAMED:
        names = [escape_label(name[:20]) for name in classes]
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize="small")
        axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.set_xlabel("predicted class")
    axes.set_ylabel("class")
    axes.set_title("test images", fontsize="medium")
