"""The shapes of a drawing as PDF, for papers."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from smallgroup.report.palette import paint
from smallgroup.report.shapes import Box, Disc, Drawing, Group, Label, Polyline, Raster, Shape
from smallgroup.runtime.files import write_whole
from smallgroup.runtime.text import escape_label, printable

UNIT = 72.0
"""Units of a drawing in an inch."""
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def write_pdf(drawing: Drawing, path: Path) -> None:
    """Write a drawing; the same drawing gives the same bytes."""
    figure = Figure(figsize=(drawing.width / UNIT, drawing.height / UNIT))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    for order, shape in enumerate(flat(drawing.shapes)):
        _draw(axes, shape, order)
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    with mpl.rc_context({"pdf.fonttype": 42}), BytesIO() as file:
        figure.savefig(file, format="pdf", metadata={"CreationDate": None, "Title": printable(drawing.title)})
        write_whole(path, file.getvalue())


def flat(shapes: Sequence[Shape]) -> list[Polyline | Box | Disc | Label | Raster]:
    """Return all shapes in drawing order, without rows that no epoch fills."""
    found: list[Polyline | Box | Disc | Label | Raster] = []
    for shape in shapes:
        if isinstance(shape, Group):
            found += [] if "empty" in shape.name.split() else flat(shape.shapes)
        else:
            found.append(shape)
    return found


def _draw(axes: Axes, shape: Polyline | Box | Disc | Label | Raster, order: int) -> None:
    def color(name: str) -> str:
        return paint(name, standalone=True)

    if isinstance(shape, Polyline):
        x = [np.nan if point is None else point[0] for point in shape.points]
        y = [np.nan if point is None else point[1] for point in shape.points]
        style: Any = (0, [float(one) / shape.width for one in shape.dash.split()]) if shape.dash else "-"
        axes.plot(x, y, color=color(shape.color), linewidth=shape.width, linestyle=style, zorder=order)
    elif isinstance(shape, Box):
        inner = shape.corner
        axes.add_patch(
            FancyBboxPatch(
                (shape.x + inner, shape.y + inner),
                shape.width - 2 * inner,
                shape.height - 2 * inner,
                boxstyle=f"round,pad={inner},rounding_size={inner}" if inner else "square,pad=0",
                facecolor=color(shape.fill),
                edgecolor=color(shape.stroke),
                linewidth=0 if shape.stroke == "none" else 1,
                zorder=order,
            )
        )
    elif isinstance(shape, Disc):
        width = 0 if shape.stroke == "none" else 1.5
        face, edge = color(shape.fill), color(shape.stroke)
        axes.add_patch(
            Circle((shape.x, shape.y), shape.radius, facecolor=face, edgecolor=edge, linewidth=width, zorder=order)
        )
    elif isinstance(shape, Label):
        axes.text(
            shape.x,
            shape.y,
            escape_label(shape.words),
            color=color(shape.color),
            ha=_ANCHORS[shape.anchor],
            va="baseline",
            fontsize=shape.size * 0.85,
            fontweight="bold" if shape.bold else "normal",
            zorder=order,
        )
    else:
        pixels = np.array([[(*one, 255) if one else (0, 0, 0, 0) for one in row] for row in shape.rows], dtype=np.uint8)
        extent = (shape.x, shape.x + shape.width, shape.y + shape.height, shape.y)
        axes.imshow(pixels, extent=extent, interpolation="nearest", aspect="auto", zorder=order)
