"""Heat maps: bright is much, dark is little, and the legend says how much."""

from smallgroup.report import palette
from smallgroup.report.heat import draw_heat
from smallgroup.report.shapes import Label, Raster
from smallgroup.spaces import SPACES

KIND = SPACES["nas-bench-201"].kinds["cell"]


def table(first: list[float | None]) -> list[list[float | None]]:
    even: list[float | None] = [0.2] * 5
    return [first, *[even] * 5]


def test_brighter_is_a_larger_share_and_what_is_removed_has_no_color() -> None:
    drawing = draw_heat(KIND, {0: table([0.1, 0.4, 0.2, 0.2, 0.1]), 1: table([0.2, 0.6, 0.2, None, 0.0])}, "learner 0")
    bands = [shape for shape in drawing.shapes if isinstance(shape, Raster)]
    assert len(bands) == 7  # six edges and the legend
    rows = bands[0].rows
    assert rows[1][1] == palette.scaled(1.0)
    assert rows[4][1] == palette.scaled(0.0)
    assert rows[0][0] == palette.scaled(0.1 / 0.6)
    assert rows[3][1] is None
    assert (bands[-1].rows[0][0], bands[-1].rows[0][-1]) == (palette.scaled(0.0), palette.scaled(1.0))
    assert "0 to 0.60, uniform 0.20" in [shape.words for shape in drawing.shapes if isinstance(shape, Label)]


def test_shares_that_hardly_differ_look_alike() -> None:
    close: list[float | None] = [0.1999, 0.2001, 0.2, 0.2, 0.2]
    drawing = draw_heat(KIND, {0: table(close), 1: table(close)}, "learner 0")
    (band, *_) = [shape for shape in drawing.shapes if isinstance(shape, Raster)]
    assert {row[0] for row in band.rows} == {palette.scaled(0.5)}  # the uniform level is the middle of the scale
    assert "0 to 0.40, uniform 0.20" in [shape.words for shape in drawing.shapes if isinstance(shape, Label)]
