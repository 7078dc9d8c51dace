"""From a study file to runs."""

from typing import Any

import pytest

from smallgroup.config import resolve
from smallgroup.statistics import smallest_p
from smallgroup.study import built_in
from smallgroup.study.controls import independent_learners
from smallgroup.study.file import open_study, parsed, points_of
from smallgroup.study.plan import PlannedRun, planned, short_names
from smallgroup.study.table import SIGNIFICANT

SECOND_ORDER = {"hypergradient": "finite-difference"}
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


def test_learners_that_nobody_teaches_are_searched_once() -> None:
    own: dict[str, Any] = {"lambda": 0, "search": {"targets": "own"}}
    untaught: list[dict[str, Any]] = [{"lambda": 0}, own]
    rows = [
        *({"name": f"alone, {lam}", "config": {"learners": 1, "lambda": lam}} for lam in (0, 1, 2)),
        *({"name": f"two, {n}", "config": {"learners": 2, **keys}} for n, keys in enumerate(untaught)),
        {"name": "taught by itself", "config": {"learners": 1, "search": {"targets": "own"}}},
        {"name": "separate", "config": {"learners": 1}, "labelers": {}},
    ]
    plan = planned("tiny", parsed({**TINY, "rows": rows, "seeds": [1]}))
    keys = [line.runs[1].search.key for line in plan.lines]
    assert len(set(keys[:3])) == len(set(keys[3:5])) == 1
    assert len(set(keys)) == len(plan.runs) == 4


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


def test_axes_are_named_by_what_tells_them_apart() -> None:
    grid = {"search.weights.lr": [0.1, 0.2], "search.architecture.lr": [0.3], "search.lambda": [1]}
    plan = planned("tiny", parsed({**TINY, "grid": grid}))
    assert plan.lines[0].name == "weights.lr = 0.1, architecture.lr = 0.3, lambda = 1: alone"
    assert len({line.name for line in plan.lines}) == len(plan.lines) == 6
    assert plan.lines[0].place(without="search.weights.lr") == "architecture.lr = 0.3, lambda = 1"
    assert short_names(["lr", "search.lr"]) == {"lr": "lr", "search.lr": "search.lr"}


def test_runs_have_one_thread() -> None:
    with pytest.raises(ValueError, match=r"one thread each, but run\.threads is 4"):
        planned("tiny", parsed({**TINY, "over": {"run": {"threads": 4}}}))


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


def test_rows_with_any_of_several_texts() -> None:
    study = parsed({**TINY, "grid": {"lambda": [1, 2]}, "claims": []})
    every = [line.name for line in planned("tiny", study).lines]
    names = [line.name for line in planned("tiny", study, "lambda = 2", "group").lines]
    assert names == [name for name in every if "lambda = 2" in name or "group" in name]
    assert len(every) > len(names) > len(planned("tiny", study, "group").lines)
    with pytest.raises(ValueError, match="row with 'grup' in its name, but there is none; did you mean group"):
        planned("tiny", study, "lambda = 2", "grup")


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
        ({"rows": [{"name": "a", "config": {"search": 3}, "controls": {}}]}, "search of 'a' must be"),
        ({"base": {"recipe": "paper"}}, "base: seeds and recipe are keys of the study.* but recipe is given here"),
        ({"over": {"seed": 7}}, "over: .*but seed is given here"),
        ({"rows": [{"name": "a", "train": {"seed": 7}}]}, "rows.0.train: .*but seed is given here"),
        ({"rows": [{"name": "a", "train": {"seeds": 7}}]}, "for phase train, which is not in phases, but 'a' has it"),
        ({"by_recipe": {"quik": {}}}, "recipe in by_recipe must be one of"),
        ({"grid": {"lambda": [1, 1.0]}}, "each once, but lambda has"),
        ({"grid": {"lambda": [1, 2]}, "rows": [{"name": "a", "theirs": {"validation_error": "1"}}]}, "without a grid"),
        ({"phases": ["train", "search"]}, r"\[search\] or \[search, train\], but got \[train, search\]"),
        ({"seeds": [10**30]}, "from 0 to 99,999"),
        ({"rows": [{"name": "a\nb"}]}, "one line of printable"),
        ({"title": "a\tb"}, "one line of printable"),
        ({"grid": {"dataset": ["digits", "folder:/a\n\\input{b}"]}}, "one line of printable"),
        ({"grid": {"lam\nbda": [1, 2]}}, "one line of printable"),
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
    with pytest.raises(ValueError, match=r"did you mean teaching\?"):
        open_study("teeching")


def test_keys_at_points_of_the_grid() -> None:
    rows = [{"name": "a", "where": [{"at": {"learners": 3}, "config": {"lambda": 0.5}}]}]
    plan = planned(
        "tiny", parsed({**TINY, "base": {"lambda": 2}, "rows": rows, "grid": {"learners": [2, 3]}, "seeds": [1]})
    )
    assert [(len(run.config.learners), run.config.lam) for run in plan.runs] == [(2, 2.0), (3, 0.5)]
    bad = [{"name": "a", "where": [{"at": {"lambda": 3}, "config": {}}]}]
    with pytest.raises(ValueError, match="axis in where"):
        parsed({**TINY, "rows": bad, "grid": {"learners": [2, 3]}})
    nowhere = [{"name": "a", "where": [{"at": {"learners": 4}, "config": {}}]}]
    with pytest.raises(ValueError, match="must lie on its axis, but learners has no 4"):
        parsed({**TINY, "rows": nowhere, "grid": {"learners": [2, 3]}})


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
    group = {
        "name": "SGL",
        "config": {"method": "pc-darts", "learners": 2, "lambda": 2},
        "train": {"training": {"epochs": 1}},
    }
    controls = {"of": "PC"}
    study = parsed(
        {
            **TINY,
            "phases": ["search", "train"],
            "base": {"learners": 2, **SECOND_ORDER},
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
    assert {str(row.train) for row in study.rows} == {"{'training': {'epochs': 1}}"}
    assert [row.theirs for row in study.rows[1:]] == [{}] * 4
    assert parsed(study.model_dump()) == study
    bare = {**TINY, "base": SECOND_ORDER, "phases": ["search", "train"], "rows": [{**group, "controls": {"of": "PC"}}]}
    assert parsed(bare).rows[1:] == tuple(row.model_copy(update={"theirs": {}}) for row in study.rows[1:])


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
        ({"base": {"learners": 3, **SECOND_ORDER}}, ["best of 3 independent", "best of 17 independent"], [3, 17]),
        ({"over": {"hypergradient": "first-order"}}, ["best of 2 independent", "best of 4 independent"], [2, 4]),
        ({"recipe": "released-code"}, ["best of 2 independent", "best of 4 independent"], [2, 4]),
        (
            {"base": {"learners": [{"method": "darts"}, {"method": "pc-darts"}], **SECOND_ORDER}},
            ["best of 2 independent", "best of 11 independent"],
            [2, 11],
        ),
        (
            {
                "base": SECOND_ORDER,
                "grid": {"learners": [2, 3]},
                "rows": [{"name": "group", "config": {"learners": 2}, "controls": {}}],
            },
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
    many = planned("tiny", parsed({**TINY, "base": SECOND_ORDER, "rows": rows})).lines[2].runs[1].search.config
    assert [learner.method for learner in many.learners] == [*["darts", "pc-darts"] * 5, "darts"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": {"seed": [1, 2]}}, "seeds and recipe are keys of the study, .* but seed is given here"),
        ({"grid": {"recipe": ["quick", "paper"]}}, "keys of the study, .* but recipe is given here"),
        ({"grid": {"search": [3], "search.epochs": [1]}}, "may not lie within another one, but search.epochs does"),
        ({"controls": {"off": "x"}}, r"controls\.off: Extra inputs"),
        ({"baseline": {"kind": "random"}}, "controls belong to a group, but 'group' is a baseline"),
        ({"over": {"learners": 3}, "base": SECOND_ORDER}, "must have learners=17, lambda=0"),
        ({"over": {"lambda": 2}}, "'best of 2 independent' must have learners=2, lambda=0"),
        (
            {"base": {"lambda": 1}, "over": {"search": {"targets": "own"}}},
            "must have learners=2, lambda=1, targets=uniform, but .*targets=own",
        ),
        (  # without human labels lambda has no say, and independent learners would be a group
            {"over": {"search": {"human_labels": False}}},
            "'best of 2 independent' must have learners=2, lambda=0, targets=peers, nobody taught, but it would have",
        ),
        ({"over": {"search": {"labels_from": "w"}}}, 'targets="uniform" uses no labeler'),
        ({"take": "first"}, "takes the best of its learners .*, but 'group' takes another"),
        ({"controls": None}, "controls of 'group' must be a section of keys, such as {}, but got None"),
        ({"config": {"search": None}}, "search of 'group' must be a section"),
        ({"where": 3}, "where of 'group' must be a list of sections, but got 3"),
        (
            {"grid": {"method": ["darts"]}, "where": [{"at": {"method": "darts"}, "config": 3}]},
            "config of 'group' must be a section of keys",
        ),
    ],
)
def test_a_row_that_is_not_what_its_name_says_is_refused(change: dict[str, Any], words: str) -> None:
    own = {key: change.pop(key) for key in ("baseline", "controls", "where", "take", "config") if key in change}
    with pytest.raises(ValueError, match=words) as error:
        parsed({**TINY, "rows": [{"name": "group", "controls": {}, **own}], **change})
    assert "\n" not in str(error.value)


def test_controls_of_groups_that_grow_over_the_grid() -> None:
    """The passes of one learner are its own; those of 2 and 3 that are taught are counted as everywhere."""
    grid = {"hypergradient": ["first-order", "finite-difference"], "learners": [1, 2, 3]}
    study = parsed({**TINY, "rows": [{"name": "group", "controls": {}}], "grid": grid, "seeds": [1]})
    names = [row.name for row in study.rows[1:]]
    assert names == ["best of K independent", "best of M independent", "self-taught", "uniform targets"]
    plan = planned("tiny", study)
    found = {
        row: [len(line.runs[1].search.config.learners) for line in plan.lines if line.row.name == row] for row in names
    }
    assert found["best of K independent"] == [1, 2, 3, 1, 2, 3]
    assert found["best of M independent"] == [1, 4, 6, 2, 11, 17]
    where = [{"at": {"learners": 3}, "config": {"lambda": 0.5}}]
    base, rows = {"lambda": 2}, [{"name": "group", "where": where, "controls": {}}]
    half = parsed({**TINY, "base": base, "rows": rows, "grid": {"learners": [2, 3]}})
    lams = {name: [line.runs[1].search.config.lam for line in planned("t", half, name).lines] for name in names}
    assert list(lams.values()) == [[0, 0], [0, 0], [2, 0.5], [2, 0.5]]
    kinds = [[{"method": "darts"}, {"method": "gdas"}], [{"method": "darts"}] * 2]
    mixed = parsed({**TINY, "rows": [{"name": "group", "controls": {}}], "grid": {"learners": kinds}, "seeds": [1]})
    many = [line.runs[1].search.config for line in planned("tiny", mixed).lines if line.row.name == mixed.rows[2].name]
    assert [{learner.method for learner in config.learners} for config in many] == [{"darts", "gdas"}, {"darts"}]


# `methods` compares nothing: it shows that every method runs.
@pytest.mark.parametrize("name", sorted({*built_in()} - {"methods"}))
def test_every_group_stands_beside_its_controls(name: str) -> None:
    """At every point of the grid: who is better than a group that is taught by V, and why, must be on the table."""
    plan = planned(*open_study(name, {"recipe": "quick", "seeds": [1]}))
    lines = [line for line in plan.lines if line.runs]
    groups = 0
    for line in lines:
        config = line.runs[1].search.config
        ablated = config.search.labels_from != "v" or not config.search.human_labels or line.row.labelers is not None
        if not config.teaching.active or config.search.targets != "peers" or ablated:
            continue
        groups += 1
        beside = [other.runs[1].search.config for other in lines if other.point == line.point]
        like = [other for other in beside if (other.data, other.space) == (config.data, config.space)]
        kinds = {(len(other.learners), other.teaching.active, other.search.targets) for other in like}
        size = len(config.learners)
        assert {(size, False, "peers"), (size, True, "own"), (size, True, "uniform")} <= kinds
        assert any(not taught and count > size for count, taught, _ in kinds)
    assert groups


def test_what_stands_above_all_rows_stands_above_trainings() -> None:
    rows = [{"name": "a", "train": {"training": {"epochs": 7}}}]
    over = {"training": {"epochs": 3}}
    change = {"phases": ["search", "train"], "columns": ["test_error"], "primary": "test_error", "over": over}
    plan = planned("tiny", parsed({**TINY, **change, "rows": rows, "seeds": [1]}))
    assert [run.config.training.epochs for run in plan.runs if run.phase == "training"] == [3]


def test_labelers_are_as_many_as_learners() -> None:
    rows = [{"name": "separate", "config": {"learners": 2}, "labelers": {"learners": 3, "lambda": 0}}]
    with pytest.raises(ValueError, match="as many as learners, but in 'separate' they are 3 and 2"):
        planned("tiny", parsed({**TINY, "rows": rows}))


def test_labelers_by_path_are_refused() -> None:
    rows = [{"name": "a", "config": {"search": {"labelers": "some/run"}}}]
    with pytest.raises(ValueError, match=r"as `labelers` of a row, but search.labelers is some/run"):
        planned("tiny", parsed({**TINY, "rows": rows}))


@pytest.mark.parametrize("recipe", ["quick", "paper"])
def test_figure_k_is_the_same_question_under_every_recipe(recipe: str) -> None:
    """One learner alone is DARTS (1st); groups follow the paper's equations."""
    found = {(len(run.config.learners), run.config.search.hypergradient) for run in _searches("figure-k", recipe)}
    groups = {(1, "first-order"), (2, "finite-difference"), (3, "finite-difference")}
    assert found == groups | {(11, "first-order"), (17, "first-order")}  # that make the passes of 2 and 3


@pytest.mark.parametrize("name", built_in())
def test_built_in_studies_have_seeds_enough_for_their_claims(name: str) -> None:
    _, study = open_study(name)
    comparisons = sum(len(claim.than) for claim in study.claims) * sum(1 for _ in points_of(study))
    assert smallest_p(len(study.seeds)) * comparisons < SIGNIFICANT


def _searches(name: str, recipe: str) -> list[PlannedRun]:
    return [run for run in planned(*open_study(name, {"recipe": recipe})).runs if run.phase == "search"]
