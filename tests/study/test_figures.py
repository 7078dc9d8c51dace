"""Pictures: what they say, and that no two curves look alike."""

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure as Picture

from smallgroup.phases.search.result import SearchResult
from smallgroup.statistics import summarize
from smallgroup.study import tabulated
from smallgroup.study.figures import Curve, beside, draw, draw_curve, look, over_axis, over_epochs, panelled
from smallgroup.study.file import Figure
from smallgroup.study.plan import PlannedRun
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


def test_points_of_a_curve_are_those_of_their_rows(tmp_path: Path) -> None:
    """Two axes whose names end alike."""
    axes = ("search.weights.lr", "search.architecture.lr")
    plan = plan_of(rows=[{"name": "g"}], claims=[], grid={axes[0]: [0.1, 0.2, 0.4], axes[1]: [0.3, 0.6]}, seeds=[1])

    def result(_: str, run: PlannedRun) -> SearchResult:
        search = run.config.search
        return searched([100 * (search.weights.lr or 0) + (search.architecture.lr or 0)])

    store = store_of(plan, tmp_path, result)
    first, second = over_axis(plan, tabulated(plan, store), axes[0])
    assert (first.panel, second.panel) == ("architecture.lr = 0.3", "architecture.lr = 0.6")
    assert [x for x, _ in first.points] == [0.1, 0.2, 0.4]
    assert [value for _, (value,) in first.points] == pytest.approx([10.3, 20.3, 40.3])


@pytest.mark.parametrize("names", [["a"], ["b" * 80], list("abcdefgh")])
def test_a_legend_hides_nothing(names: list[str]) -> None:
    """Within the axes it would lie over the bars of some study or other."""
    picture = Picture(layout="constrained")
    (axes,) = panelled(picture, [Curve(name, [(1.0, [1.0, 9.0, 5.0]), (2.0, [9.0, 1.0, 7.0])]) for name in names])
    picture.draw_without_rendering()
    (legend,) = picture.legends
    assert legend.get_window_extent().x0 > axes.get_window_extent().x1
    assert legend.get_window_extent().x1 <= picture.bbox.x1


@pytest.mark.parametrize(("count", "across", "down"), [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 3, 2), (7, 3, 3)])
def test_other_axes_have_panels_and_one_legend(count: int, across: int, down: int) -> None:
    picture = Picture(layout="constrained")
    places = [f"method = {n}" for n in range(count)]
    curves = [Curve(name, [(1.0, [1.0]), (2.0, [n])], place) for n, place in enumerate(places) for name in "ab"]
    panels = panelled(picture, curves)
    assert [axes.get_title() for axes in panels] == places
    assert list(picture.axes) == panels
    assert [axes.get_legend_handles_labels()[1] for axes in panels] == [["a", "b"]] * count
    assert len(picture.legends) == 1
    width, height = picture.get_size_inches()
    assert (width, height) == (pytest.approx(6.4 * across + 3.0), pytest.approx(4.2 * down))


def test_a_figure_is_as_high_as_its_legend() -> None:
    picture = Picture(layout="constrained")
    panelled(picture, [Curve(f"row {n}", [(1.0, [1.0])]) for n in range(40)])
    assert picture.get_size_inches()[1] == pytest.approx(40 * 0.19)


def test_curves_stand_beside_one_another_and_around_their_place() -> None:
    """A fifth of the room to either side at most: nobody takes a point for one of the next place."""
    curves = [Curve(name, [(x, [1.0]) for x in (0.0, 0.5, 3.0)]) for name in "abc"]
    asides = [beside(number, curves) for number in range(3)]
    assert asides == pytest.approx([-0.2 / 3, 0.0, 0.2 / 3])
    assert beside(0, [Curve("alone", [(1.0, [1.0]), (2.0, [1.0])])]) == 0.0
    assert beside(1, [Curve(name, [(1.0, [1.0])]) for name in "ab"]) == 0.0


def test_a_course_counts_epochs_from_one_and_all_learners(tmp_path: Path) -> None:
    rows = [{"name": "all", "config": {"lambda": 0}}, {"name": "alone", "config": {"lambda": 0}, "take": "first"}]
    plan = plan_of(rows=rows, claims=[], base={"learners": 2}, seeds=[1])
    store = store_of(plan, tmp_path, lambda *_: searched([10.0, 20.0]))
    place = store.place(plan.runs[0])
    place.mkdir(parents=True)
    rows_ = [{"epoch": e, "learner": k, "w_error": 50.0 - 10 * e + k} for e in range(3) for k in range(2)]
    (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_))
    (everyone, alone), unreadable = over_epochs(plan, store)
    assert unreadable == 0
    assert everyone.points == [(1.0, [50.5]), (2.0, [40.5]), (3.0, [30.5])]
    assert alone.points == [(1.0, [50.0]), (2.0, [40.0]), (3.0, [30.0])]


@pytest.mark.parametrize(
    "line", ["{{", "[]", '{"w_error": 1.0}', '{"epoch": "x", "w_error": 1.0}', '{"epoch": 0, "w_error": NaN}']
)
def test_metrics_that_cannot_be_read_are_left_out_and_told_of(line: str, tmp_path: Path) -> None:
    plan = plan_of(rows=[{"name": "a"}], claims=[], seeds=[1, 2])
    store = store_of(plan, tmp_path, lambda *_: searched([10.0]))
    for run, text in zip(plan.runs, (line, '{"epoch": 0, "learner": 0, "w_error": 1.0}'), strict=True):
        store.place(run).mkdir(parents=True)
        (store.place(run) / "metrics.jsonl").write_text(text + "\n")
    curves, unreadable = over_epochs(plan, store)
    assert ([curve.points for curve in curves], unreadable) == ([[(1.0, [1.0])]], 1)
    (svg, _) = draw(plan, tabulated(plan, store), store, Figure(kind="course"), tmp_path / "figure")
    assert "without 1 runs whose metrics cannot be read" in svg.read_text()


def test_names_and_titles_are_no_formulas_and_break(tmp_path: Path) -> None:
    text = drawn([r"$\frac$", "a name that is as long as a name of a row may be, which is eighty letters"], tmp_path)
    assert r"$\frac$" in text
    assert "a name that is as long as a name of" in text
    assert ">a row may be, which is eighty<" in text


def test_bars_reach_from_the_lower_to_the_upper_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    axes = Picture().add_subplot()
    monkeypatch.setattr(axes, "errorbar", lambda x, means, errors, **_: seen.append((x, means, errors)))
    values = [1.0, 1.0, 1.0, 1.0, 1.0, 9.0]
    draw_curve(axes, Curve("a", [(3.0, values)]), 0, 0.25)
    ((x, means, errors),) = seen
    interval = summarize(values).interval
    assert interval is not None
    assert x == [3.25]
    assert (means[0] - errors[0][0], means[0] + errors[1][0]) == pytest.approx(interval)


@pytest.mark.parametrize("first", [0, 7, 14])
def test_no_two_curves_look_alike(first: int) -> None:
    assert len({tuple(look(number).values()) for number in range(28)}) == 28
    one, again = look(first), look(first + 7)
    assert one["color"] == again["color"]
    assert one["marker"] != again["marker"]
    assert one["linestyle"] != again["linestyle"]
