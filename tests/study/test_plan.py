"""From a study file to runs."""

from typing import Any

import pytest

from smallgroup.study.file import built_in, open_study, parsed
from smallgroup.study.plan import planned

TINY: dict[str, Any] = {
    "title": "tiny",
    "base": {"search": {"epochs": 1, "steps_per_epoch": 1}},
    "seeds": "1-2",
    "columns": ["validation_error"],
    "primary": "validation_error",
    "rows": [
        {"name": "alone", "config": {"learners": 2, "lambda": 0}, "take": "first"},
        {"name": "independent", "config": {"learners": 2, "lambda": 0}},
        {"name": "group", "config": {"learners": 2}},
    ],
}


def test_rows_of_one_config_share_a_run() -> None:
    plan = planned("tiny", parsed(TINY))
    assert len(plan.lines) == 3
    assert len(plan.runs) == 4
    assert [run.config.seed for run in plan.runs] == [1, 1, 2, 2]


def test_every_row_at_every_point() -> None:
    plan = planned("tiny", parsed({**TINY, "grid": {"method": ["darts", "pc-darts"], "search.lambda": [1, 2]}}))
    assert [line.name for line in plan.lines][:3] == [
        "method = darts, lambda = 1: alone",
        "method = darts, lambda = 1: independent",
        "method = darts, lambda = 1: group",
    ]
    assert len(plan.lines) == 12
    assert plan.lines[-1].runs[1].config.lam == 2.0
    assert plan.lines[-1].runs[1].config.learners[0].method == "pc-darts"


def test_a_key_depends_on_the_config_and_on_nothing_else() -> None:
    one, other = planned("a", parsed(TINY)), planned("b", parsed({**TINY, "title": "another", "seeds": "2"}))
    assert one.runs[2].key == other.runs[0].key
    assert one.hash != other.hash
    assert one.runs[0].kind == one.runs[2].kind != one.runs[1].kind


def test_what_stands_above_all_rows() -> None:
    plan = planned("tiny", parsed({**TINY, "over": {"lambda": 3}}))
    assert {run.config.lam for run in plan.runs} == {3.0}


def test_only_some_rows() -> None:
    assert [line.name for line in planned("tiny", parsed(TINY), "group").lines] == ["group"]
    with pytest.raises(ValueError, match="row with 'nothing'"):
        planned("tiny", parsed(TINY), "nothing")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"primary": "beauty"}, "measure must be one of"),
        ({"columns": ["test_error"]}, "phase train, which is not in phases"),
        ({"rows": []}, "rows"),
        ({"rows": [{"name": "a"}, {"name": "a"}]}, "different names"),
        ({"claims": [{"says": "x", "row": "group", "than": ["nobody"]}]}, "row of a claim"),
        ({"figures": [{"kind": "curve", "axis": "lambda"}]}, "axis of a figure"),
        ({"figures": [{"kind": "curve"}]}, "needs an axis"),
        ({"grid": {"lambda": []}}, "must have values"),
        ({"seeds": "3-1"}, "seeds must be like"),
        ({"seeds": [1, 1]}, "different numbers"),
        ({"phases": ["train"]}, "phases"),
        (
            {"primary": "seconds", "claims": [{"says": "x", "row": "group", "than": ["alone"]}]},
            "more or less is better",
        ),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_a_bad_file_is_a_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        parsed({**TINY, **change})
    assert "\n" not in str(error.value)


def test_a_bad_config_is_refused_before_anything_runs() -> None:
    rows = [{"name": "a", "config": {"search": {"epochs": -1}}}]
    with pytest.raises(ValueError, match="epochs"):
        planned("tiny", parsed({**TINY, "rows": rows, "claims": []}))


@pytest.mark.parametrize("recipe", ["quick", "paper"])
@pytest.mark.parametrize("name", built_in())
def test_built_in_studies_can_be_planned(name: str, recipe: str) -> None:
    plan = planned(*open_study(name, {"recipe": recipe}))
    assert plan.runs
    assert len({run.key for run in plan.runs}) == len(plan.runs)


def test_no_such_study() -> None:
    with pytest.raises(ValueError, match="nearest teaching"):
        open_study("teeching")
