"""A drawing as a list of shapes, which becomes SVG here and PDF elsewhere. Same shapes, same bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from smallgroup.report.markup import Markup, render
from smallgroup.report.palette import paint

FONT = "ui-sans-serif,system-ui,Helvetica,Arial,sans-serif"
SIZE = 12.0
"""Of letters, in the units of a drawing."""


@dataclass(frozen=True)
class Polyline:
    """Straight pieces from point to point; None breaks it."""

    element: ClassVar = "path"
    points: Sequence[tuple[float, float] | None]
    color: str = "ink"
    width: float = 1.0
    dash: str = ""
    name: str = ""
    """A class by which a script finds it."""


@dataclass(frozen=True)
class Box:
    """A rectangle, with rounded corners if `corner` is not 0."""

    element: ClassVar = "rect"
    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    stroke: str = "none"
    corner: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class Disc:
    """A circle, such as a node of a cell."""

    element: ClassVar = "circle"
    x: float
    y: float
    radius: float
    fill: str = "ink"
    stroke: str = "none"
    name: str = ""


@dataclass(frozen=True)
class Label:
    """A line of text; `y` is its base line."""

    element: ClassVar = "text"
    x: float
    y: float
    words: str
    color: str = "ink"
    anchor: str = "start"
    size: float = SIZE
    bold: bool = False
    name: str = ""


@dataclass(frozen=True)
class Raster:
    """Colored fields, row by row, stretched over a rectangle."""

    element: ClassVar = "image"
    x: float
    y: float
    width: float
    height: float
    rows: Sequence[Sequence[tuple[int, int, int] | None]]
    png: str
    """The same as a PNG in base64."""


@dataclass(frozen=True)
class Group:
    """Shapes that belong together, with a text that says what they are."""

    element: ClassVar = "g"
    shapes: "Sequence[Shape]"
    title: str = ""
    name: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    focus: bool = False
    """Whether it can be reached with the tab key."""


Shape = Polyline | Box | Disc | Label | Raster | Group


@dataclass(frozen=True)
class Drawing:
    """Shapes on a sheet of a given size."""

    width: float
    height: float
    shapes: Sequence[Shape]
    title: str
    description: str
    data: Mapping[str, object] = field(default_factory=dict)
    name: str = "drawing"


def svg(drawing: Drawing, *, standalone: bool = False) -> Markup:
    """Return a drawing as SVG; within a page its colors follow the page's, in a separate file they are fixed."""
    paper = Box(0, 0, drawing.width, drawing.height, fill="paper")
    return render(
        "drawing.svg",
        drawing=drawing,
        shapes=[paper, *drawing.shapes] if standalone else drawing.shapes,
        standalone=standalone,
        viewbox=f"0 0 {drawing.width:g} {drawing.height:g}",
        font=FONT,
        size=SIZE,
        paint=partial(paint, standalone=standalone),
        path=_path,
    ).strip()


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    words, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        words.append(f"{pen}{_two(point[0])} {_two(point[1])}")
        pen = "L"
    return "".join(words)


def _two(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
