"""Charts: numbers at their place, round ticks, gaps where there is nothing."""

import math
import re
from dataclasses import replace

import pytest

from smallgroup.report.axes import axis_of, in_digits, tick_labels
from smallgroup.report.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    TOP,
    WIDTH,
    Chart,
    ChartPoint,
    Series,
    draw_chart,
    kept_apart,
    shortened,
)
from smallgroup.report.scatter import NetworkPoint, draw_scatter
from smallgroup.report.shapes import Disc, Group, Label, Polyline, svg


def chart(*values: float | None, log: bool = False, first: int = 0) -> Chart:
    points = tuple(ChartPoint(first + epoch, value, 1) for epoch, value in enumerate(values) if value is not None)
    other = Series("other", (ChartPoint(first, 1.0, 2), ChartPoint(first + len(values) - 1, 1.0, 3)), "x")
    return Chart("it", "It", "%", "About it.", (Series("own", points, "w_error"), other), log=log)


def line_of(made: object) -> list[tuple[float, float] | None]:
    groups = [shape for shape in made.shapes if isinstance(shape, Group)]  # type: ignore[attr-defined]
    line = groups[0].shapes[0]
    assert isinstance(line, Polyline)
    return list(line.points)


def ticks_of(made: object) -> dict[float, float]:
    """By value, the height of each tick of the upright axis."""
    labels = [s for s in made.shapes if isinstance(s, Label) and s.anchor == "end"]  # type: ignore[attr-defined]
    return {float(label.words): label.y - 4 for label in labels}


def test_points_lie_where_the_ticks_say() -> None:
    made = draw_chart(chart(0.0, 20.0, 10.0, 40.0))
    points, ticks = line_of(made), ticks_of(made)
    assert points[0] is not None
    assert points[1] is not None
    assert ticks[0.0] == pytest.approx(points[0][1])
    assert ticks[20.0] == pytest.approx(points[1][1])
    across = [point[0] for point in points if point is not None]
    right = float(str(made.data["right"]))
    assert across == pytest.approx([LEFT + i / 3 * (right - LEFT) for i in range(4)])
    assert all(TOP <= point[1] <= HEIGHT - BOTTOM for point in points if point is not None)
    assert points[3] is not None
    assert points[3][1] < points[1][1]  # more is higher


def test_a_logarithmic_axis_spaces_powers_evenly_and_leaves_out_zero() -> None:
    made = draw_chart(chart(1000.0, 0.0, 10.0, log=True))
    ticks = ticks_of(made)
    assert ticks[10.0] - ticks[100.0] == pytest.approx(ticks[100.0] - ticks[1000.0])
    assert line_of(made)[1] is None


def test_what_is_missing_is_a_gap_and_a_lonely_number_a_dot() -> None:
    made = draw_chart(chart(1.0, None, 3.0, 4.0))
    # The epoch in which no line has a number is not there at all; one that another line has is a gap.
    assert [point is None for point in line_of(made)] == [False, False, False]
    gaps = Chart(
        "it",
        "It",
        "",
        "",
        (Series("own", (ChartPoint(0, 1.0, 1), ChartPoint(2, 2.0, 3)), "x"), chart(1.0, 2.0, 3.0).series[0]),
    )
    drawing = draw_chart(gaps)
    assert [point is None for point in line_of(drawing)] == [False, True, False]
    own = next(shape for shape in drawing.shapes if isinstance(shape, Group)).shapes
    assert len([shape for shape in own if isinstance(shape, Disc)]) == 2


@pytest.mark.parametrize("values", [(5.0,), (5.0, 5.0), (0.0, 0.0), (-1.0, 1.0), (1e-9, 2e-9), (1e12, 3e12)])
def test_any_numbers_can_be_drawn(values: tuple[float, ...]) -> None:
    points = tuple(ChartPoint(epoch, value, 1) for epoch, value in enumerate(values))
    made = svg(draw_chart(Chart("it", "It", "", "", (Series("own", points, "x"),))))
    numbers = [float(one) for one in re.findall(r"[ML]([-\d.]+) ", made)]
    assert all(-1 <= one <= WIDTH for one in numbers)
    assert "nan" not in made


def test_numbers_have_the_digits_they_need() -> None:
    values = (0.0, 0.25, 1234.5, 1e-5, 123456.0, 0.99995, 0.00012345678)
    assert [in_digits(value) for value in values] == [
        "0",
        "0.25",
        "1234.5",
        "1e-5",
        "1.23456e5",
        "0.99995",
        "1.23457e-4",
    ]
    assert in_digits(0.1 + 0.2, 4) == "0.3"


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        ([0.99985, 0.9999, 0.99995], ["0.99985", "0.9999", "0.99995"]),
        ([3 * 0.1, 0.4, 0.5], ["0.3", "0.4", "0.5"]),
        ([0.0, 500.0, 1000.0], ["0", "500", "1000"]),
        ([102500.0, 105000.0], ["1.025e5", "1.05e5"]),
        ([1e-5, 1e-3, 0.1], ["1e-5", "0.001", "0.1"]),
        ([5.0], ["5"]),
        ([0.0], ["0"]),
        ([], []),
    ],
)
def test_ticks_are_what_they_say(ticks: list[float], labels: list[str]) -> None:
    assert tick_labels(ticks) == labels


def test_long_numbers_have_room_beside_the_axis() -> None:
    points = tuple(ChartPoint(epoch, 1.2345e-7 + epoch * 1e-8, 1) for epoch in range(3))
    made = draw_chart(Chart("it", "It", "", "", (Series("own", points, "x"),)))
    (label, *_) = [shape for shape in made.shapes if isinstance(shape, Label) and shape.anchor == "end"]
    assert label.x > len(label.words) * 0.64 * label.size  # the widest digits that browsers are known to take


@pytest.mark.parametrize(
    ("values", "unit", "ends"),
    [
        ([0.9999, 1.0], "share", (0.0, 1.0)),
        ([-0.01, 0.02], "cosine", (-1.0, 1.0)),
        ([0.9999, 1.0], "", (0.94995, 1.04995)),
        ([93.1, 93.2], "%", (88.49, 97.81)),
        ([5.0], "%", (4.75, 5.25)),
        ([1.0, 40.0], "%", (0.0, 42.0)),
        ([1.5], "share", (1.425, 1.575)),  # no share, whatever it says
    ],
)
def test_an_axis_does_not_make_much_of_little(values: list[float], unit: str, ends: tuple[float, float]) -> None:
    low, high, ticks = axis_of(values, unit)
    assert (low, high) == pytest.approx(ends)
    assert len(ticks) >= 2
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)


def test_lines_are_named_at_their_end_and_names_keep_apart() -> None:
    made = draw_chart(chart(5.0, 1.001))
    names = [shape for group in made.shapes if isinstance(group, Group) for shape in group.shapes[1:]]
    assert [(name.words, name.color) for name in names if isinstance(name, Label)] == [("own", "l0"), ("other", "l0")]
    heights = [name.y for name in names if isinstance(name, Label)]
    assert abs(heights[0] - heights[1]) >= 11
    assert kept_apart([5.0, 5.0, 5.0], 0.0, 100.0) == [5.0, 16.0, 27.0]
    assert kept_apart([99.0, 98.0], 0.0, 100.0) == [100.0, 89.0]


def test_networks_are_points_with_names_and_the_axis_of_errors_begins_at_zero() -> None:
    points = [NetworkPoint("searched", 2e6, 1.25, "a"), NetworkPoint("ResNet", 4e6, 1.25, "b", 1)]
    made = draw_scatter(points)
    groups = [shape for shape in made.shapes if isinstance(shape, Group)]
    assert groups[1].title == "ResNet: test error 1.25 %, 4 M multiply-adds"
    discs = [shape for group in groups for shape in group.shapes if isinstance(shape, Disc)]
    assert discs[0].x < discs[1].x
    assert discs[0].y == discs[1].y == pytest.approx(TOP + (HEIGHT - TOP - BOTTOM) * (1 - 1.25 / (1.25 * 1.05)))
    labels = [shape.y for group in groups for shape in group.shapes if isinstance(shape, Label)]
    assert abs(labels[0] - labels[1]) >= 11


def test_a_line_stands_where_something_else_is_measured() -> None:
    made = draw_chart(replace(chart(1.0, 2.0, 3.0, 4.0), breaks=(0, 2, 3)))
    upright = [s for s in made.shapes if isinstance(s, Polyline) and s.dash]
    across = [point[0] for line in upright for point in line.points if point is not None]
    step = (float(str(made.data["right"])) - LEFT) / 3
    # Between an epoch and the next one; after the last there is nothing to keep apart.
    assert across == pytest.approx([LEFT + place * step for place in (0.5, 0.5, 2.5, 2.5)])


def test_a_file_has_a_legend_and_fixed_colors() -> None:
    drawing = draw_chart(chart(1.0, 2.0), legend=True)
    made = svg(drawing, standalone=True)
    assert drawing.height > HEIGHT
    assert ">own</text>" in made
    assert "var(" not in made


@pytest.mark.parametrize("values", [[0.1002, 0.1004, 0.1049], [0.114, 0.1149], [3e-7, 3.001e-7], [0.2, 0.7]])
def test_a_narrow_logarithmic_axis_has_ticks_that_differ_and_lie_within(values: list[float]) -> None:
    low, high, ticks = axis_of(values, log=True)
    assert len(ticks) >= 2
    assert len(set(tick_labels(ticks))) == len(ticks)
    assert all(low <= math.log10(tick) <= high for tick in ticks)


def test_long_names_beside_lines_are_told_apart() -> None:
    assert shortened(["the network found", "resnet"]) == ["the network f…", "resnet"]
    assert shortened(["darts-seed-1-lambda-0.3", "darts-seed-1-lambda-0"]) == ["…-1-lambda-0.3", "…ed-1-lambda-0"]
    names = ["darts-seed-1-of-the-folder", "darts-seed-1-of-another", "pc-darts-seed-1-of-the-folder"]
    assert shortened(names) == ["darts-s…folder", "…-1-of-another", "pc-darts-seed…"]
    assert shortened(["the same long name"] * 2) == ["the same long…"] * 2
