"""Networks as points: error against multiply-adds, each with its name beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from smallgroup.report import palette
from smallgroup.report.axes import axis_of, tick_labels
from smallgroup.report.charts import BOTTOM, CHARACTER, HEIGHT, LEFT, TOP, WIDTH, kept_apart
from smallgroup.report.shapes import Disc, Drawing, Group, Label, Polyline, Shape
from smallgroup.report.words import percent, sized

ROOM = 16.0
"""Between the end of an axis and the last number below it."""


@dataclass(frozen=True)
class NetworkPoint:
    """A trained network as a point: its error and its multiply-adds."""

    name: str
    multiply_adds: float
    error: float
    source: str
    """File that the numbers come from."""
    color: int = 0

    @property
    def words(self) -> str:
        """For who cannot see it, or points at it."""
        return f"{self.name}: test error {percent(self.error)}, {sized(self.multiply_adds)} multiply-adds"


def draw_scatter(points: Sequence[NetworkPoint]) -> Drawing:
    """Draw networks by cost and error; the lower left corner is best."""
    low, high, ticks = axis_of([0.0, *(point.error for point in points)], "%")
    start, end, marks = axis_of([point.multiply_adds for point in points])
    labels = tick_labels(ticks)
    left = max(LEFT, 7 + CHARACTER * max(map(len, labels), default=0))
    right = WIDTH - 14 - CHARACTER * max(len(point.name) for point in points)

    def x(value: float) -> float:
        return left + (value - start) / (end - start) * (right - left)

    def y(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    shapes: list[Shape] = []
    for tick, words in zip(ticks, labels, strict=True):
        shapes.append(Polyline([(left, y(tick)), (right, y(tick))], "grid"))
        shapes.append(Label(left - 5, y(tick) + 4, words, "muted", "end"))
    taken = left - ROOM
    for mark in marks:
        words, middle = sized(mark), x(mark)
        if middle - CHARACTER * len(words) / 2 > taken:
            shapes.append(Label(middle, HEIGHT - BOTTOM + 15, words, "muted", "middle"))
            taken = middle + CHARACTER * len(words) / 2 + 4
    shapes.append(Label((left + right) / 2, HEIGHT - 4, "↑ test error, %   → multiply-adds", "muted", "middle"))
    heights = kept_apart([y(point.error) for point in points], TOP + 4, HEIGHT - BOTTOM)
    for point, height in zip(points, heights, strict=True):
        color = palette.series(point.color)
        place = x(point.multiply_adds), y(point.error)
        # Names stand in a column at the right, so that none lies on another or on a point.
        line = Polyline([place, (right + 6, height)], color, 0.75, "2 3")
        name = Label(right + 9, height + 4, point.name, color, bold=point.color == 0)
        shapes.append(Group([line, Disc(*place, 5, fill=color, stroke="paper"), name], point.words, "point"))
    about = "; ".join(point.words for point in points)
    return Drawing(WIDTH, HEIGHT, shapes, "Error against multiply-adds", f"{about}.", {}, "scatter")
