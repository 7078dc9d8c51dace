"""Architecture weights over time as a heat map: a band per edge, a strip per operation, a column per epoch."""

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image

from smallgroup.report import palette
from smallgroup.report.cells import StrengthTable, shares_of
from smallgroup.report.shapes import Drawing, Label, Polyline, Raster, Shape

if TYPE_CHECKING:
    from smallgroup.spaces.kinds import Kind

WIDTH, LEFT, STRIP, GAP, TOP = 320.0, 98.0, 5.0, 6.0, 8.0
LABELS = 25.0
"""What two lines beside a band need, however few its strips are."""
SHORT = {"none": "none", "skip_connect": "skip"}


def draw_heat(kind: "Kind", tables: Mapping[int, StrengthTable], whose: str, frame: str = "") -> Drawing:
    """Draw the shares of every operation of every edge; `tables` are the scores by epoch."""
    epochs = sorted(tables)
    strip = max(STRIP, LABELS / len(kind.operations))
    band = strip * len(kind.operations)
    shapes: list[Shape] = []
    top = TOP
    every = [share for table in tables.values() for row in table for share in _shares(kind, row)]
    uniform = 1 / len(kind.operations)
    # From nothing to twice the uniform level at least: shares that hardly differ look alike.
    highest = max(2 * uniform, *every) if every else 1.0
    for edge, (source, node) in enumerate(kind.edges):
        columns = [_column(kind, tables[epoch], edge) for epoch in epochs]
        rows = [[column[place] for column in columns] for place in range(len(kind.operations))]
        colors = [[None if v is None else palette.scaled(v / highest) for v in row] for row in rows]
        shapes.append(Raster(LEFT, top, WIDTH - LEFT - 8, band, colors, _png(colors)))
        last = {name: row[-1] for name, row in zip(kind.operations, rows, strict=True)}
        best = max(last, key=lambda name: last[name] or 0.0)
        shapes.append(Label(4, top + band / 2 - 1, f"{source} → {node}", size=12.0, bold=True))
        shapes.append(Label(4, top + band / 2 + 11, best, "muted", size=11.5))
        top += band + GAP
    shapes.append(Label(LEFT, top + 8, f"epoch {epochs[0]}", "muted"))
    shapes.append(Label(WIDTH - 8, top + 8, f"epoch {epochs[-1]}", "muted", "end"))
    legend = [[palette.scaled(place / 19) for place in range(20)]]
    shapes.append(Raster(LEFT, top + 16, 56, 8, legend, _png(legend)))
    at = LEFT + 56 * uniform / highest
    shapes.append(Polyline([(at, top + 13), (at, top + 27)], "ink", 1.5))
    words = f"0 to {highest:.2f}, uniform {uniform:.2f}"
    shapes.append(Label(WIDTH - 8, top + 24, words, "muted", "end"))
    about = (
        f"For each edge a band of {len(kind.operations)} strips, from top to bottom: {', '.join(kind.operations)}; "
        "brighter is a larger share of the edge. Beside it the operation with the largest share at the end. "
        "The tick on the scale is the uniform level."
    )
    title = f"architecture weights of the {kind.title} of {whose}"
    data = {"frame": frame, "left": LEFT, "right": WIDTH - 8, "top": TOP, "band": band + GAP, "strip": strip}
    return Drawing(WIDTH, top + 32, shapes, title, about, data if frame else {}, "heat")


def _shares(kind: "Kind", row: Sequence[float | None]) -> list[float]:
    return [share for _, share in shares_of(kind.operations, row)]


def _column(kind: "Kind", table: StrengthTable, edge: int) -> list[float | None]:
    """Return the share of each operation of an edge in an epoch; None for one that has been removed."""
    row = table[edge] if edge < len(table) else ()
    shares = dict(shares_of(kind.operations, row))
    known = [place < len(row) and row[place] is not None for place in range(len(kind.operations))]
    return [shares.get(name, 0.0) if there else None for name, there in zip(kind.operations, known, strict=True)]


def _png(rows: Sequence[Sequence[tuple[int, int, int] | None]]) -> str:
    """Return an image with one pixel per field; removed operations are transparent."""
    picture = Image.new("RGBA", (len(rows[0]), len(rows)))
    picture.putdata([(*color, 255) if color else (0, 0, 0, 0) for row in rows for color in row])
    with BytesIO() as file:
        picture.save(file, "PNG", optimize=True)
        return base64.b64encode(file.getvalue()).decode()
