"""Lines over epochs, drawn as shapes: axes with round numbers, one line per series, a legend where it stands alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from smallgroup.report import palette
from smallgroup.report.axes import axis_of, in_digits, tick_labels, whole_ticks
from smallgroup.report.shapes import SIZE, Disc, Drawing, Group, Label, Polyline, Shape

WIDTH, HEIGHT = 360.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 12.0, 12.0, 38.0
LEGEND_ROW = 16.0
CHARACTER = 0.65 * SIZE
"""The width of a digit in a wide font; an axis with long numbers has more room beside it."""
NAME = 14
"""Letters of a name beside the end of its line; the legend has it whole."""
NAMED = 12
"""Lines up to which each is named at its end."""
APART = 11.0
"""Between two names, one above the other."""


@dataclass(frozen=True)
class ChartPoint:
    """A number and where it comes from."""

    epoch: int
    value: float
    line: int
    """Number of the line in metrics.jsonl."""


@dataclass(frozen=True)
class Series:
    """A line of a chart, with the file and line of each point."""

    name: str
    points: tuple[ChartPoint, ...]
    source: str
    """What it is, as the metrics name it."""
    color: int = 0
    dash: int = 0
    file: str = "metrics.jsonl"
    """File that the points come from."""

    @cached_property
    def _by_epoch(self) -> dict[int, ChartPoint]:
        return {point.epoch: point for point in self.points}

    def at(self, epoch: int) -> ChartPoint | None:
        """Return the point of an epoch, or None."""
        return self._by_epoch.get(epoch)


@dataclass(frozen=True)
class Chart:
    """Several series drawn over the same axes."""

    key: str
    """A name for files and anchors."""
    title: str
    unit: str
    about: str
    """A sentence on how to read it."""
    series: tuple[Series, ...]
    log: bool = False
    x_name: str = "epoch"
    breaks: tuple[int, ...] = ()
    """Epochs after which something else is measured: a line stands there."""

    @property
    def epochs(self) -> list[int]:
        """All that have a point, in order."""
        return sorted({point.epoch for one in self.series for point in one.points})

    @property
    def values(self) -> list[float]:
        """Return the values that the axis can show: on a log scale those above 0."""
        return [p.value for one in self.series for p in one.points if not self.log or p.value > 0]


def draw_chart(chart: Chart, *, legend: bool = False) -> Drawing:
    """Draw a chart; a legend is for files, which have no page beside them."""
    epochs, values = chart.epochs, chart.values
    low, high, ticks = axis_of(values, chart.unit, log=chart.log)
    first, last = epochs[0], max(epochs[-1], epochs[0] + 1)
    labels = tick_labels(ticks)
    left = max(LEFT, 7 + CHARACTER * max(map(len, labels), default=0))
    named = not legend and 1 < len(chart.series) <= NAMED
    names = shortened([one.name for one in chart.series])
    right = WIDTH - (8 + CHARACTER * max(map(len, names)) if named else RIGHT)

    def x(epoch: float) -> float:
        return left + (epoch - first) / (last - first) * (right - left)

    def y(value: float) -> float:
        place = math.log10(value) if chart.log else value
        return TOP + (high - place) / (high - low) * (HEIGHT - TOP - BOTTOM)

    shapes: list[Shape] = []
    for tick, words in zip(ticks, labels, strict=True):
        shapes += [
            Polyline([(left, y(tick)), (right, y(tick))], "grid"),
            Label(left - 5, y(tick) + 4, words, "muted", "end"),
        ]
    for epoch in chart.breaks:
        if first <= epoch < epochs[-1]:
            place = x(epoch + 0.5)
            shapes.append(Polyline([(place, TOP), (place, HEIGHT - BOTTOM)], "muted", 1, "2 3"))
    for epoch in whole_ticks(first, last):
        shapes.append(Label(x(epoch), HEIGHT - BOTTOM + 15, str(epoch), "muted", "middle"))
    shapes.append(Label((left + right) / 2, HEIGHT - 4, f"↑ {axis_words(chart)}   → {chart.x_name}", "muted", "middle"))
    lines = []
    for one in chart.series:
        points: list[tuple[float, float] | None] = []
        for epoch in epochs:
            point = one.at(epoch)
            usable = point is not None and (not chart.log or point.value > 0)
            points.append((x(epoch), y(point.value)) if usable and point is not None else None)
        lines.append(points)
    ends = [next((point[1] for point in reversed(points) if point is not None), TOP) for points in lines]
    heights = kept_apart(ends, TOP + 4, HEIGHT - BOTTOM) if named else ends
    for number, (one, points, end) in enumerate(zip(chart.series, lines, heights, strict=True)):
        name = Label(right + 4, end + 4, names[number], palette.series(one.color)) if named else None
        shapes.append(_series(one, number, points, name))
    height = HEIGHT
    if legend:
        for place, one in enumerate(chart.series):
            base = HEIGHT + LEGEND_ROW * place + 10
            color, dash = palette.series(one.color), palette.dash(one.dash)
            shapes += [
                Polyline([(LEFT, base - 4), (LEFT + 28, base - 4)], color, 2, dash),
                Label(LEFT + 34, base, one.name),
            ]
        height += LEGEND_ROW * len(chart.series) + 6
    about = f"{chart.about} {len(chart.series)} lines over {chart.x_name}s {first} to {epochs[-1]}, {spanned(chart)}."
    data = {"first": first, "last": last, "left": left, "right": right, "top": TOP, "bottom": HEIGHT - BOTTOM}
    return Drawing(WIDTH, height, shapes, chart.title, about, data, "chart")


def axis_words(chart: Chart) -> str:
    """Return unit and scale of the vertical axis."""
    return (chart.unit or "value") + (" (log)" if chart.log else "")


def spanned(chart: Chart) -> str:
    """Return the range of the values as text."""
    unit = f" {chart.unit}" if chart.unit else ""
    return f"values from {in_digits(min(chart.values))} to {in_digits(max(chart.values))}{unit}"


def shortened(names: Sequence[str]) -> list[str]:
    """Return names that have room beside a line: the beginning, the end or both, whichever no other name has."""
    half = NAME // 2
    forms = [
        [f"{name[: NAME - 1]}…" for name in names],
        [f"…{name[1 - NAME :]}" for name in names],
        [f"{name[:half]}…{name[half + 1 - NAME :]}" for name in names],
    ]
    return [
        name if len(name) <= NAME else next((form[k] for form in forms if form.count(form[k]) == 1), forms[0][k])
        for k, name in enumerate(names)
    ]


def kept_apart(places: Sequence[float], low: float, high: float) -> list[float]:
    """Return places as near to those wanted as lets names stand one above the other, between two ends."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    made = list(places)
    before = low - APART
    for i in order:
        before = made[i] = max(made[i], before + APART)
    after = high + APART
    for i in reversed(order):
        after = made[i] = min(made[i], after - APART)
    return made


def _series(one: Series, number: int, points: Sequence[tuple[float, float] | None], name: Label | None) -> Group:
    color = palette.series(one.color)
    line = Polyline(points, color, 2, palette.dash(one.dash))
    alone = [
        point
        for place, point in enumerate(points)
        if point is not None
        and (place == 0 or points[place - 1] is None)
        and (place + 1 == len(points) or points[place + 1] is None)
    ]
    dots: list[Shape] = [Disc(px, py, 2.5, fill=color) for px, py in alone]
    return Group([line, *dots, *([name] if name else [])], one.name, "series", {"series": number})
