"""What results show of themselves in notebooks."""

import base64
import builtins
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from smallgroup.phases.search.answer import AnswerRecord
from smallgroup.phases.search.result import LearnerResult, SearchResult
from smallgroup.phases.shown import ShownResult, draw_figure, draw_html, scalars_of
from smallgroup.phases.training import MutualResult, TrainResult
from smallgroup.phases.training.mutual_result import PeerResult
from smallgroup.pipeline import RunResult
from smallgroup.report.palette import OPERATIONS
from smallgroup.report.plots import ResultFigure

CELL = "|nor_conv_3x3~0|+|none~0|avg_pool_3x3~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
ATTACK = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m"
ROWS: list[dict[str, Any]] = [
    {
        "epoch": epoch,
        "learner": k,
        "w_error": 50.0 - epoch,
        "v_error": 40.0,
        "w_validation_loss": 1.5,
        "scores": {"a": [1]},
    }
    for epoch in (0, 1)
    for k in (0, 1)
]
CURVE: list[dict[str, Any]] = [{"epoch": epoch, "loss": 1.0, "train_error": 30.0 - epoch} for epoch in range(3)]


def searched(**changes: Any) -> SearchResult:
    learners = [LearnerResult("darts", 1.5, 49.0 + k, CELL) for k in range(2)]
    answer = AnswerRecord("retained", 0, "learner 0 is retained")
    own = (
        "darts",
        "nas-bench-201",
        "digits",
        2,
        0.3,
        "first-order",
        1,
        8,
        3.0,
        100.0,
        0,
        answer,
        CELL,
        1000,
        1.5,
        49.0,
    )
    result = replace(SearchResult(*own, learners), **changes)
    result.keep_history(ROWS)
    return result


def trained(**changes: Any) -> TrainResult:
    own = ("digits", "nas-bench-201", 1, CELL, 1000, 2000, 3, 30, 3.0, 100.0, 28.0)
    tested: Any = ("looked at once, after the last epoch", 25.0, 3.0, None, {"a$b": 0.0, "c": 50.0}, [[4, 0], [2, 2]])
    result = replace(TrainResult(*own, *tested), **changes)
    result.keep_history(CURVE)
    return result


def taught() -> MutualResult:
    peers = [PeerResult(f"learner-{k}", "nas-bench-201", CELL, 10, 20, 3, 1.0, 20.0, 0.1, 25.0, None) for k in (0, 1)]
    result = MutualResult("digits", 1, 1.0, 3, 30, 1.0, 100.0, "looked at once", None, peers)
    result.keep_history({**row, "learner": k} for row in CURVE for k in (0, 1))
    return result


RESULTS: dict[str, ShownResult] = {
    "search": searched(),
    "training": trained(),
    "mutual": taught(),
    "run": RunResult(searched(), trained(), {"resnet": trained(test_error=30.0)}, []),
}


class Tags(HTMLParser):
    """The elements of a page, and the attributes that they have."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_its_numbers(name: str) -> None:
    text = RESULTS[name]._repr_html_()
    assert text is not None
    tags = Tags(text)
    assert tags.attributes <= {"src", "alt"}
    assert set(tags.found) <= {
        "div",
        "strong",
        "p",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        *("figure", "img"),
    } | {"figcaption"}
    for number in {"search": ["49.00", "50.00", "1.5000"], "mutual": ["25.00"]}.get(
        name, ["25.00 %", "1,000 parameters"]
    ):
        assert number in text


def test_the_cell_is_drawn() -> None:
    text = searched()._repr_html_() or ""
    (source,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', text)
    drawing = base64.b64decode(source).decode()
    assert drawing.startswith("<svg")
    for operation in ("nor_conv_3x3", "avg_pool_3x3", "nor_conv_1x1"):
        assert operation in drawing
        assert OPERATIONS[operation] in drawing


def test_the_cell_of_a_space_that_is_not_registered_is_a_text() -> None:
    text = searched(space="of-a-plugin", genotype="a<b")._repr_html_() or ""
    assert "a&lt;b" in text
    assert "<img" not in text


@pytest.mark.parametrize(
    "result",
    [
        searched(dataset=ATTACK, method=ATTACK, answer=AnswerRecord("retained", 0, ATTACK)),
        searched(group=[LearnerResult(ATTACK, 1.0, 2.0, CELL)], true_accuracy={ATTACK: 1.0}),
        searched(space=ATTACK, genotype=ATTACK),
        trained(dataset=ATTACK, choice=ATTACK),
        trained(dataset="x" * 10_000_000),
    ],
    ids=["names", "learners", "genotype", "training", "long"],
)
def test_text_that_is_not_ours_stays_text(result: ShownResult) -> None:
    text = result._repr_html_() or ""
    assert len(text) < 100_000
    assert "script" not in Tags(text).found
    assert Tags(text).attributes <= {"src", "alt"}
    assert "\x1b" not in text
    assert "<img src=x" not in text


@pytest.mark.parametrize("name", RESULTS)
def test_a_plot_is_a_figure_that_notebooks_display(name: str, tmp_path: Path) -> None:
    figure = RESULTS[name].plot()
    assert isinstance(figure, Figure)
    assert isinstance(figure, ResultFigure)
    assert figure._repr_png_().startswith(b"\x89PNG")
    figure.savefig(tmp_path / "figure.svg")
    assert all(axes.lines or axes.images for axes in figure.axes)
    if name == "search":
        (line, *_) = figure.axes[0].lines
        assert np.asarray(line.get_xdata()).tolist() == [1, 2]
        assert np.asarray(line.get_ydata()).tolist() == [50.0, 49.0]


def test_ticks_are_whole_epochs_also_of_a_single_one() -> None:
    result = searched()
    result.keep_history(row for row in ROWS if row["epoch"] == 0)
    figure = result.plot()
    figure.canvas.draw()
    low, high = figure.axes[0].get_xlim()
    assert [tick for tick in figure.axes[0].get_xticks() if low <= tick <= high] == [1.0]


def test_a_plot_does_not_need_metrics_or_test_images() -> None:
    assert len(trained(confusion=None, class_errors=None).plot().axes) == 2
    bare = replace(searched())
    assert bare.history == ()
    assert len(bare.plot().axes) == 2


def test_metrics_are_a_data_frame() -> None:
    found = searched().metrics()
    assert isinstance(found, pd.DataFrame)
    assert found.shape == (4, 5)
    assert list(found["w_error"]) == [50.0, 50.0, 49.0, 49.0]
    whole = RESULTS["run"].metrics()
    assert list(whole["part"].unique()) == ["search", "training", "resnet"]
    assert len(whole) == 4 + 3 + 3


def test_metrics_are_a_list_where_pandas_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pandas(name: str, *arguments: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.delitem(sys.modules, "pandas")
    monkeypatch.setattr(builtins, "__import__", without_pandas)
    found = searched().metrics()
    assert found[0] == {"epoch": 0, "learner": 0, "w_error": 50.0, "v_error": 40.0, "w_validation_loss": 1.5}
    found[0]["epoch"] = 7
    assert searched().history[0]["epoch"] == 0


def test_lists_are_not_in_the_table() -> None:
    row = {"epoch": 1, "true": {"a": 2.0, "b": [1]}, "list": [1], "none": None, "name": "x"}
    assert scalars_of(row) == {"epoch": 1, "true.a": 2.0, "none": None, "name": "x"}


def test_another_object_has_no_view() -> None:
    assert draw_html(object()) is None
    with pytest.raises(TypeError, match="no plot of object"):
        draw_figure(object())
