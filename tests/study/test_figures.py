"""Pictures: what they say, and that no two curves look alike."""

import re
from pathlib import Path
from typing import Any

import pytest

from smallgroup.study import tabulated
from smallgroup.study.figures import draw, look
from smallgroup.study.file import Figure
from tests.study.hand_made import searched, store_of
from tests.study.test_table import plan_of


def drawn(names: list[str], tmp_path: Path) -> str:
    """A curve for each row over lambda, as SVG."""
    rows: list[dict[str, Any]] = [{"name": name, "config": {"learners": 1 + n}} for n, name in enumerate(names)]
    plan = plan_of(rows=rows, claims=[], grid={"lambda": [0, 1]}, seeds=[1, 2, 3])
    store = store_of(plan, tmp_path, lambda _, run: searched([10.0 + run.config.seed + run.config.lam]))
    (svg, _) = draw(plan, tabulated(plan, store), store, Figure(kind="curve", axis="lambda"), tmp_path / "figure")
    return svg.read_text(encoding="utf-8")


def test_a_picture_says_what_its_bars_are(tmp_path: Path) -> None:
    assert "bars: 95 % bootstrap intervals of the mean over seeds" in drawn(["one"], tmp_path)


def test_many_curves_have_their_legend_beside(tmp_path: Path) -> None:
    few, many = drawn(list("abcde"), tmp_path), drawn(list("abcdef"), tmp_path)
    widths = [float(re.findall(r'<svg[^>]* width="([\d.]+)pt"', text)[0]) for text in (few, many)]
    assert widths[1] > widths[0]
    assert 'id="legend_1"' in many


@pytest.mark.parametrize("first", [0, 7, 14])
def test_no_two_curves_look_alike(first: int) -> None:
    assert len({tuple(look(number).values()) for number in range(28)}) == 28
    one, again = look(first), look(first + 7)
    assert one["color"] == again["color"]
    assert one["marker"] != again["marker"]
    assert one["linestyle"] != again["linestyle"]
