"""From a study file to runs."""

from typing import Any

import pytest

from smallgroup.config import resolve
from smallgroup.statistics import smallest_p
from smallgroup.study.controls import independent_learners
from smallgroup.study.file import built_in, open_study, parsed, points_of
from smallgroup.study.plan import Run, planned
from smallgroup.study.table import SIGNIFICANT

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
    assert plan.lines[-1].runs[1].search.config.lam == 2.0
    assert plan.lines[-1].runs[1].search.config.learners[0].method == "pc-darts"


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
        ({"rows": 3}, "rows"),
        ({"claims": 3}, "claims"),
        ({"rows": [{"name": "a", "config": {"search": 3}, "controls": {"passes": 4}}]}, "controls"),
        ({"grid": {f"a{n}": list(range(10)) for n in range(9)}}, "at most 10,000 runs, but they make 6,000,000,000"),
        ({"seeds": ",".join(f"{n}000-{n}999" for n in range(1, 99))}, "seeds must be like"),
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


def test_keys_at_points_of_the_grid() -> None:
    rows = [{"name": "a", "where": [{"at": {"learners": 3}, "config": {"lambda": 0.5}}]}]
    plan = planned("tiny", parsed({**TINY, "rows": rows, "grid": {"learners": [2, 3]}, "seeds": [1]}))
    assert [(len(run.config.learners), run.config.lam) for run in plan.runs] == [(2, 1.0), (3, 0.5)]
    bad = [{"name": "a", "where": [{"at": {"lambda": 3}, "config": {}}]}]
    with pytest.raises(ValueError, match="axis in where"):
        parsed({**TINY, "rows": bad, "grid": {"learners": [2, 3]}})


def test_retrainings_leave_alone_what_the_search_left_alone() -> None:
    base = {"data": {"held_out": 0.1}}
    change = {"phases": ["search", "train"], "retrainings": 2, "columns": ["held_out_error"]}
    rows = [{"name": "group"}]
    plan = planned(
        "tiny", parsed({**TINY, **change, "rows": rows, "primary": "held_out_error", "base": base, "seeds": [4]})
    )
    trainings = [run for run in plan.runs if run.phase == "training"]
    assert {run.config.seed for run in trainings} == {4, 100_004}
    assert {run.config.data.split_seed for run in trainings} == {4}


def test_controls_stand_beside_a_group() -> None:
    group = {"name": "SGL", "config": {"method": "pc-darts", "learners": 2, "lambda": 2}, "train": {"seed": 1}}
    controls = {"of": "PC", "passes": 11}
    study = parsed(
        {
            **TINY,
            "base": {"learners": 2},
            "rows": [{**group, "theirs": {"validation_error": "9"}, "controls": controls}],
        }
    )
    assert [row.name for row in study.rows] == [
        "SGL",
        "PC, best of 2 independent",
        "PC, best of 11 independent",
        "PC, self-taught",
        "PC, uniform targets",
    ]
    assert [claim.model_dump() for claim in study.claims] == [
        {"says": "teaching helps PC", "row": "SGL", "than": ("PC, self-taught", "PC, best of 2 independent")}
    ]
    found = [line.runs[1].search.config for line in planned("tiny", study).lines]
    assert {learner.method for config in found for learner in config.learners} == {"pc-darts"}
    assert [len(config.learners) for config in found] == [2, 2, 11, 2, 2]
    assert [config.lam for config in found] == [2, 0, 0, 2, 2]
    assert [config.search.targets for config in found] == ["peers", "peers", "peers", "own", "uniform"]
    assert found[2].search.hypergradient == "first-order"
    assert {str(row.train) for row in study.rows} == {"{'seed': 1}"}
    assert [row.theirs for row in study.rows[1:]] == [{}] * 4
    assert parsed(study.model_dump()) == study
    assert parsed({**TINY, "rows": [{**group, "controls": {"of": "PC"}}]}).rows[1:] == tuple(
        row.model_copy(update={"theirs": {}}) for row in study.rows[1:]
    )


@pytest.mark.parametrize(
    ("learners", "mode", "passes"),
    [(2, "first-order", 4), (2, "finite-difference", 11), (3, "first-order", 6), (3, "finite-difference", 17)],
)
def test_so_many_independent_learners_make_the_passes_of_a_group(learners: int, mode: str, passes: int) -> None:
    """As the schedules count them: 13 or 34 for a learner that is taught, 6 for one alone."""
    group = resolve({"learners": learners, "hypergradient": mode})
    assert independent_learners(group, resolve({"learners": 1, "hypergradient": "first-order"})) == passes


@pytest.mark.parametrize(
    ("change", "names", "learners"),
    [
        ({"base": {"learners": 3}}, ["best of 3 independent", "best of 17 independent"], [3, 17]),
        ({"over": {"hypergradient": "first-order"}}, ["best of 2 independent", "best of 4 independent"], [2, 4]),
        ({"recipe": "released-code"}, ["best of 2 independent", "best of 4 independent"], [2, 4]),
        (
            {"base": {"learners": [{"method": "darts"}, {"method": "pc-darts"}]}},
            ["best of 2 independent", "best of 11 independent"],
            [2, 11],
        ),
        (
            {"grid": {"learners": [2, 3]}, "rows": [{"name": "group", "config": {"learners": 2}, "controls": {}}]},
            ["best of 2 independent", "best of 11 independent"],
            [2, 11],
        ),
    ],
)
def test_controls_are_named_by_what_they_run(change: dict[str, Any], names: list[str], learners: list[int]) -> None:
    study = parsed({**TINY, "rows": [{"name": "group", "controls": {}}], **change})
    assert [row.name for row in study.rows[1:3]] == names
    configs = [line.runs[1].search.config for line in planned("tiny", study).lines[1:3]]
    assert [len(config.learners) for config in configs] == learners
    assert {config.lam for config in configs} == {0.0}


def test_independent_learners_are_of_the_kinds_that_the_group_has() -> None:
    rows = [{"name": "group", "config": {"learners": [{"method": "darts"}, {"method": "pc-darts"}]}, "controls": {}}]
    many = planned("tiny", parsed({**TINY, "rows": rows})).lines[2].runs[1].search.config
    assert [learner.method for learner in many.learners] == [*["darts", "pc-darts"] * 5, "darts"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": {"seed": [1, 2]}}, "key of their own, but seed is in the grid"),
        ({"grid": {"search": [3], "search.epochs": [1]}}, "may not lie within another one, but search.epochs does"),
        ({"controls": {"passes": 4}}, "11 independent learners make the passes of 'group', but passes is 4"),
        ({"over": {"learners": 3}}, "must have learners=17, lambda=0"),
        ({"over": {"lambda": 2}}, "'best of 2 independent' must have learners=2, lambda=0"),
        ({"over": {"search": {"targets": "own"}}}, "'uniform targets' must have learners=2, targets=uniform"),
        ({"grid": {"learners": [2, 3]}}, "same number of learners at every point of the grid, but 'group' has 2, 3"),
        ({"grid": {"hypergradient": ["first-order", "exact"]}}, "same number of passes"),
        (
            {"grid": {"learners": [[{"method": "darts"}, {"method": "gdas"}], [{"method": "darts"}] * 2]}},
            "same list of learners at every point of the grid, but 'group' has several",
        ),
        (
            {"grid": {"method": ["darts"]}, "where": [{"at": {"method": "darts"}, "config": {"lambda": 3}}]},
            "'best of 2 independent' must have",
        ),
    ],
)
def test_a_row_that_is_not_what_its_name_says_is_refused(change: dict[str, Any], words: str) -> None:
    own = {key: change.pop(key) for key in ("controls", "where") if key in change}
    with pytest.raises(ValueError, match=words) as error:
        parsed({**TINY, "rows": [{"name": "group", "controls": {}, **own}], **change})
    assert "\n" not in str(error.value)


def test_labellers_by_path_are_refused() -> None:
    rows = [{"name": "a", "config": {"search": {"labellers": "some/run"}}}]
    with pytest.raises(ValueError, match=r"as `labellers` of a row, but search.labellers is some/run"):
        planned("tiny", parsed({**TINY, "rows": rows}))


@pytest.mark.parametrize("recipe", ["quick", "paper"])
def test_figure_k_is_the_same_question_under_every_recipe(recipe: str) -> None:
    """One learner alone is DARTS (1st); groups follow the paper's equations."""
    found = {(len(run.config.learners), run.config.search.hypergradient) for run in _searches("figure-k", recipe)}
    assert found == {(1, "first-order"), (2, "finite-difference"), (3, "finite-difference")}


@pytest.mark.parametrize("name", built_in())
def test_built_in_studies_have_seeds_enough_for_their_claims(name: str) -> None:
    _, study = open_study(name)
    comparisons = sum(len(claim.than) for claim in study.claims) * sum(1 for _ in points_of(study))
    assert smallest_p(len(study.seeds)) * comparisons < SIGNIFICANT


def _searches(name: str, recipe: str) -> list[Run]:
    return [run for run in planned(*open_study(name, {"recipe": recipe})).runs if run.phase == "search"]
