"""Lines over epochs, drawn as shapes: axes with round numbers, one line per series, a legend where it stands alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from smallgroup.report import palette
from smallgroup.report.shapes import SIZE, Disc, Drawing, Group, Label, Polyline, Shape

WIDTH, HEIGHT = 360.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 12.0, 12.0, 38.0
LEGEND_ROW = 16.0
CHARACTER = 0.65 * SIZE
"""The width of a digit in a wide font; an axis with long numbers has more room beside it."""
EXACT = 6
"""Digits of a number that is read as such, and not as a place on an axis."""


@dataclass(frozen=True)
class ChartPoint:
    """A number and where it comes from."""

    epoch: int
    value: float
    line: int
    """Of metrics.jsonl."""


@dataclass(frozen=True)
class Series:
    """One line."""

    name: str
    points: tuple[ChartPoint, ...]
    source: str
    """What it is, as the metrics name it."""
    colour: int = 0
    dash: int = 0
    file: str = "metrics.jsonl"
    """Where its lines are."""

    @cached_property
    def _by_epoch(self) -> dict[int, ChartPoint]:
        return {point.epoch: point for point in self.points}

    def at(self, epoch: int) -> ChartPoint | None:
        """Its point of an epoch."""
        return self._by_epoch.get(epoch)


@dataclass(frozen=True)
class Chart:
    """Series that share their axes."""

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
        """Those that can be drawn."""
        return [p.value for one in self.series for p in one.points if not self.log or p.value > 0]


def draw_chart(chart: Chart, *, legend: bool = False) -> Drawing:
    """The drawing; a legend is for files, where no page has one beside it."""
    epochs, values = chart.epochs, chart.values
    low, high, ticks = _axis(values, log=chart.log)
    first, last = epochs[0], max(epochs[-1], epochs[0] + 1)
    labels = tick_labels(ticks)
    left = max(LEFT, 7 + CHARACTER * max(map(len, labels), default=0))

    def x(epoch: float) -> float:
        return left + (epoch - first) / (last - first) * (WIDTH - left - RIGHT)

    def y(value: float) -> float:
        place = math.log10(value) if chart.log else value
        return TOP + (high - place) / (high - low) * (HEIGHT - TOP - BOTTOM)

    shapes: list[Shape] = []
    for tick, words in zip(ticks, labels, strict=True):
        shapes += [
            Polyline([(left, y(tick)), (WIDTH - RIGHT, y(tick))], "grid"),
            Label(left - 5, y(tick) + 4, words, "muted", "end"),
        ]
    for epoch in chart.breaks:
        if first <= epoch < epochs[-1]:
            place = x(epoch + 0.5)
            shapes.append(Polyline([(place, TOP), (place, HEIGHT - BOTTOM)], "muted", 1, "2 3"))
    for epoch in _whole_ticks(first, last):
        shapes.append(Label(x(epoch), HEIGHT - BOTTOM + 15, str(epoch), "muted", "middle"))
    shapes.append(
        Label((left + WIDTH - RIGHT) / 2, HEIGHT - 4, f"↑ {axis_words(chart)}   → {chart.x_name}", "muted", "middle")
    )
    for number, one in enumerate(chart.series):
        points: list[tuple[float, float] | None] = []
        for epoch in epochs:
            point = one.at(epoch)
            usable = point is not None and (not chart.log or point.value > 0)
            points.append((x(epoch), y(point.value)) if usable and point is not None else None)
        shapes.append(_series(one, number, points))
    height = HEIGHT
    if legend:
        for place, one in enumerate(chart.series):
            base = HEIGHT + LEGEND_ROW * place + 10
            colour, dash = palette.series(one.colour), palette.dash(one.dash)
            shapes += [
                Polyline([(LEFT, base - 4), (LEFT + 28, base - 4)], colour, 2, dash),
                Label(LEFT + 34, base, one.name),
            ]
        height += LEGEND_ROW * len(chart.series) + 6
    about = f"{chart.about} {len(chart.series)} lines over {chart.x_name}s {first} to {epochs[-1]}, {spanned(chart)}."
    data = {"first": first, "last": last, "left": left, "right": WIDTH - RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM}
    return Drawing(WIDTH, height, shapes, chart.title, about, data, "chart")


def axis_words(chart: Chart) -> str:
    """The unit and the scale."""
    return (chart.unit or "value") + (" (log)" if chart.log else "")


def spanned(chart: Chart) -> str:
    """From where to where the values go."""
    unit = f" {chart.unit}" if chart.unit else ""
    return f"values from {in_digits(min(chart.values))} to {in_digits(max(chart.values))}{unit}"


def _series(one: Series, number: int, points: Sequence[tuple[float, float] | None]) -> Group:
    colour = palette.series(one.colour)
    line = Polyline(points, colour, 2, palette.dash(one.dash))
    alone = [
        point
        for place, point in enumerate(points)
        if point is not None
        and (place == 0 or points[place - 1] is None)
        and (place + 1 == len(points) or points[place + 1] is None)
    ]
    dots: list[Shape] = [Disc(px, py, 2.5, fill=colour) for px, py in alone]
    return Group([line, *dots], one.name, "series", {"series": number})


def in_digits(value: float, digits: int = EXACT) -> str:
    """A number rounded to so many digits, without zeros at its end."""
    if value == 0:
        return "0"
    if abs(value) >= 10000 or abs(value) < 0.001:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa.rstrip('0').removesuffix('.')}e{int(exponent)}"
    return f"{value:.{digits}g}"


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Each tick as what it is: with as many digits as tell it to a thousandth of the way to the next."""
    way = min((after - before for before, after in pairwise(ticks)), default=max(map(abs, ticks), default=0.0))
    words: list[str] = []
    for digits in range(4, 17):
        words = [in_digits(tick, digits) for tick in ticks]
        if all(abs(float(one) - tick) <= way / 1000 for one, tick in zip(words, ticks, strict=True)):
            break
    return words


def _axis(values: Sequence[float], *, log: bool) -> tuple[float, float, list[float]]:
    """Lower and upper end, and the round numbers between them."""
    low, high = min(values), max(values)
    if log:
        low, high = math.log10(low), math.log10(high)
        pad = 0.05 * (high - low) or 0.3
        low, high = low - pad, high + pad
        powers = [10.0**power for power in range(math.ceil(low), math.floor(high) + 1)]
        if len(powers) < 2:
            powers = _rounded_between(low, high)
        return low, high, powers[:: max(1, len(powers) // 5)]
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    pad = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = (low if low == 0 else low - pad), high + pad
    step = _round_step((high - low) / 4)
    return low, high, [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _rounded_between(low: float, high: float) -> list[float]:
    """Three numbers evenly between two logarithms, with as few digits as leave them about where they are."""
    places = [low + share * (high - low) for share in (0.1, 0.5, 0.9)]
    numbers: list[float] = []
    for digits in range(1, 16):
        numbers = [float(f"{10**place:.{digits}e}") for place in places]
        if all(abs(math.log10(n) - place) <= 0.05 * (high - low) for n, place in zip(numbers, places, strict=True)):
            break
    return numbers


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= rough), 10 * power)


def _whole_ticks(first: int, last: int) -> list[int]:
    step = max(1, math.ceil(_round_step(max(1, (last - first) / 6))))
    return list(range(first, last + 1, step))
