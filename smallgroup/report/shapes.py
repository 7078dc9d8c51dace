"""A drawing as a list of shapes, which becomes SVG here and PDF elsewhere. Same shapes, same bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from smallgroup.report.markup import Markup, tag
from smallgroup.report.palette import paint

FONT = "ui-sans-serif,system-ui,Helvetica,Arial,sans-serif"
SIZE = 12.0
"""Of letters, in the units of a drawing."""


@dataclass(frozen=True)
class Polyline:
    """Straight pieces from point to point; None breaks it."""

    points: Sequence[tuple[float, float] | None]
    colour: str = "ink"
    width: float = 1.0
    dash: str = ""
    name: str = ""
    """A class by which a script finds it."""


@dataclass(frozen=True)
class Box:
    """A rectangle."""

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
    """A circle."""

    x: float
    y: float
    radius: float
    fill: str = "ink"
    stroke: str = "none"
    name: str = ""


@dataclass(frozen=True)
class Label:
    """A line of text; `y` is its base line."""

    x: float
    y: float
    words: str
    colour: str = "ink"
    anchor: str = "start"
    size: float = SIZE
    bold: bool = False
    name: str = ""


@dataclass(frozen=True)
class Raster:
    """Coloured fields, row by row, stretched over a rectangle."""

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

    shapes: "Sequence[Shape]"
    title: str = ""
    name: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    focus: bool = False
    """Whether the keyboard reaches it."""


Shape = Polyline | Box | Disc | Label | Raster | Group


@dataclass(frozen=True)
class Drawing:
    """Shapes on a sheet."""

    width: float
    height: float
    shapes: Sequence[Shape]
    title: str
    description: str
    data: Mapping[str, object] = field(default_factory=dict)
    name: str = "drawing"


def svg(drawing: Drawing, *, standalone: bool = False) -> Markup:
    """The drawing; within a page its colours follow those of the page, in a file of its own they are fixed."""
    size = {"width": drawing.width, "height": drawing.height, "xmlns": "http://www.w3.org/2000/svg"}
    own: dict[str, object] = dict(size) if standalone else {"class_": drawing.name}
    paper = Box(0, 0, drawing.width, drawing.height, fill="paper")
    shapes = [paper, *drawing.shapes] if standalone else drawing.shapes
    return tag(
        "svg",
        tag("title", drawing.title),
        tag("desc", drawing.description),
        *(_shape(shape, standalone=standalone) for shape in shapes),
        viewbox=f"0 0 {drawing.width:g} {drawing.height:g}",
        role="group" if drawing.name == "cell" and not standalone else "img",
        aria_label=f"{drawing.title}. {drawing.description}",
        font_family=FONT,
        font_size=SIZE,
        **own,
        **({} if standalone else {f"data_{key}": value for key, value in drawing.data.items()}),
    )


def _shape(shape: Shape, *, standalone: bool) -> Markup:
    def colour(name: str) -> str:
        return paint(name, standalone=standalone)

    if isinstance(shape, Group):
        inner = [_shape(one, standalone=standalone) for one in shape.shapes]
        title = tag("title", shape.title) if shape.title else None
        own: dict[str, object] = {} if standalone else {f"data_{key}": value for key, value in shape.data.items()}
        if shape.focus and not standalone:
            own |= {"tabindex": "0", "role": "img", "aria_label": shape.title}
        return tag("g", title, *inner, class_=_name(shape.name, standalone), **own)
    name = _name(shape.name, standalone) if not isinstance(shape, Raster) else None
    if isinstance(shape, Polyline):
        return tag(
            "path",
            d=_path(shape.points),
            fill="none",
            stroke=colour(shape.colour),
            stroke_width=shape.width,
            stroke_dasharray=shape.dash or None,
            stroke_linejoin="round",
            class_=name,
        )
    if isinstance(shape, Box):
        return tag(
            "rect",
            x=shape.x,
            y=shape.y,
            width=shape.width,
            height=shape.height,
            rx=shape.corner or None,
            fill=colour(shape.fill),
            stroke=None if shape.stroke == "none" else colour(shape.stroke),
            class_=name,
        )
    if isinstance(shape, Disc):
        stroke = None if shape.stroke == "none" else colour(shape.stroke)
        width = None if stroke is None else 1.5
        return tag(
            "circle",
            cx=shape.x,
            cy=shape.y,
            r=shape.radius,
            fill=colour(shape.fill),
            stroke=stroke,
            stroke_width=width,
            class_=name,
        )
    if isinstance(shape, Label):
        return tag(
            "text",
            shape.words,
            x=shape.x,
            y=shape.y,
            fill=colour(shape.colour),
            text_anchor=None if shape.anchor == "start" else shape.anchor,
            font_size=None if shape.size == SIZE else shape.size,
            font_weight="600" if shape.bold else None,
            class_=name,
        )
    return tag(
        "image",
        x=shape.x,
        y=shape.y,
        width=shape.width,
        height=shape.height,
        preserveAspectRatio="none",
        image_rendering="pixelated",
        href=f"data:image/png;base64,{shape.png}",
    )


def _name(name: str, standalone: bool) -> str | None:
    return None if standalone else name or None


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
