"""Cells as drawings: the same bytes for the same cell, every operation where it belongs, nothing on top of another."""

import re
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from smallgroup.report.cells import DrawnCell, Way, draw_cell, drawn, shares_of, slots_of, width_of
from smallgroup.report.shapes import Box, Drawing, Group, Label, Polyline, svg
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.nas_bench_201.cell import Cell
from tests.report.makers import CELLS, scores

SVG = "{http://www.w3.org/2000/svg}"


def edges(drawing: Drawing) -> list[Group]:
    return [shape for shape in drawing.shapes if isinstance(shape, Group) and shape.name.startswith("edge")]


def parts(group: Group) -> dict[str, object]:
    return {shape.name: shape for shape in group.shapes if not isinstance(shape, Group)}  # type: ignore[union-attr]


@pytest.mark.parametrize("name", list(published()))
def test_every_published_cell_is_drawn_with_all_its_operations(name: str) -> None:
    genotype = published()[name]
    for kind, cell in drawn(genotype).items():
        made = svg(draw_cell(cell, name), standalone=True)
        root = ElementTree.fromstring(made)
        told = [text.text for text in root.iter(f"{SVG}text")]
        wanted = [edge.operation for edges in getattr(genotype, kind).nodes for edge in edges]
        assert [word for word in told if word in wanted] == wanted
        assert root.find(f"{SVG}title") is not None
        assert root.find(f"{SVG}desc") is not None


def test_the_same_cell_gives_the_same_bytes() -> None:
    cells = drawn(published()["DARTS_V2"])
    one, other = (svg(draw_cell(cells["normal"], "DARTS_V2"), standalone=True) for _ in range(2))
    assert one == other
    # If this changes, drawings in papers change: only on purpose.
    assert sha256(one.encode()).hexdigest()[:16] == "b20412cb67ce26df"
    assert "var(" not in one
    assert "class=" not in one


def test_nothing_lies_on_something_else() -> None:
    for genotype in published().values():
        for cell in drawn(genotype).values():
            made = draw_cell(cell, "it")
            pills = [parts(group)["pill"] for group in edges(made)]
            boxes = [(pill.y, pill.y + pill.height) for pill in pills if isinstance(pill, Box)]
            assert len(boxes) == sum(map(len, cell.nodes))
            assert all(one[1] <= other[0] for one, other in pairwise(boxes))
            assert all(low >= 0 and high <= made.height for low, high in boxes)


def test_a_way_begins_at_its_source_and_is_as_thick_as_it_is_decided() -> None:
    cell = drawn(Cell.parse(CELLS[0]), {"cell": scores(1, 0)})["cell"]
    made = edges(draw_cell(cell, "learner 0"))
    ways = [way for node in cell.nodes for way in node]
    assert [way.source for way in ways] == [0, 0, 1, 0, 1, 2]
    starts = []
    for group, way in zip(made, ways, strict=True):
        ride = parts(group)["ride"]
        assert isinstance(ride, Polyline)
        assert ride.points[0] is not None
        starts.append(ride.points[0][0])
        assert ride.width == pytest.approx(width_of(way))
        scale, gauge, uniform = (parts(group)[name] for name in ("scale", "gauge", "uniform"))
        assert isinstance(scale, Polyline)
        assert isinstance(gauge, Polyline)
        assert isinstance(uniform, Polyline)
        assert way.share is not None
        ends = [line.points[-1][0] - scale.points[0][0] for line in (scale, gauge, uniform)]  # type: ignore[index]
        assert [end / ends[0] for end in ends[1:]] == pytest.approx([way.share, 0.2])
        assert f"from node {way.source}" in group.title
        assert "alternatives: " in group.title
    assert [starts.index(start) for start in starts] == [0, 0, 2, 0, 2, 5]
    shares = [(("a", share), ("b", 1 - share)) for share in (0.4, 0.5, 0.75, 1.0)]
    assert [width_of(Way(0, "a", 0, one)) for one in shares] == [1.0, 1.0, 4.5, 8.0]
    assert width_of(Way(0, "a", 0)) == 2.0


def test_shares_are_of_an_edge_and_leave_out_what_was_removed() -> None:
    assert shares_of(("a", "b", "c"), [1.0, None, 3.0]) == (("c", 0.75), ("a", 0.25))
    assert shares_of(("a", "b"), [0.0, 0.0]) == ()
    assert shares_of(("a",), [None]) == ()


def test_rows_stay_where_they_are_when_other_epochs_need_more() -> None:
    small = DrawnCell(
        "normal", "normal cell", ("x", "y"), ((Way(0, "skip_connect", 0),), (Way(1, "sep_conv_3x3", 3),)), (2, 3)
    )
    large = replace(small, nodes=((Way(0, "none", 0), Way(1, "none", 1)), small.nodes[1]))
    slots = slots_of([small, large])
    assert slots == (2, 1)
    one, other = draw_cell(small, "it", slots), draw_cell(large, "it", slots)
    assert [group.data["y"] for group in edges(one)] == [group.data["y"] for group in edges(other)]
    assert [group.name for group in edges(one)] == ["edge", "edge empty", "edge"]
    assert one.height == other.height


def test_letters_fit_into_their_pill() -> None:
    """At 0.62 of its size a letter is wider than in any of the fonts; the share stands at the right."""
    genotypes: list[Genotype] = [*published().values(), Cell.parse(CELLS[0])]
    for genotype in genotypes:
        for cell in drawn(genotype).values():
            for group in edges(draw_cell(cell, "it")):
                own = parts(group)
                label, pill = own["operation"], own["pill"]
                assert isinstance(label, Label)
                assert isinstance(pill, Box)
                assert 0.62 * label.size * (len(label.words) + 5) + 20 <= pill.width + 20


def test_a_hostile_name_is_words() -> None:
    cell = DrawnCell("cell", "cell", ("input",), ((Way(0, "<script>", 0),),), (1,))
    made = svg(draw_cell(cell, '"><script>alert(1)</script>'))
    assert "<script" not in made
    assert re.search(r"&lt;script&gt;", made)


def test_shares_are_numbers_that_the_script_has_too() -> None:
    """It gets ten-thousandths: of any other number a drawing and the slider would round differently."""
    found = dict(shares_of(("skip", "conv", "pool"), [0.20552, 0.39458, 0.4]))
    assert found == {"skip": 0.2055, "conv": 0.3945, "pool": 0.4}
