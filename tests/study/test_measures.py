"""The mean of learners, answers by rule, scores and what a search costs, on results made by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from smallgroup.config import resolve
from smallgroup.phases.search.answer import AnswerRecord
from smallgroup.phases.search.result import SearchResult
from smallgroup.spaces.nas_bench_201 import Truth, every_cell
from smallgroup.spaces.nas_bench_201.effects import score_correlation
from smallgroup.study import Store
from smallgroup.study.footer import footer
from smallgroup.study.measures import MEASURES, count_passes
from smallgroup.study.outcome import Outcome
from smallgroup.study.table import check_measurable
from tests.spaces.nas_bench_201.test_effects import KNOWN, additive
from tests.study.hand_made import searched
from tests.study.test_table import plan_of

GROUP: dict[str, Any] = {"dataset": "cifar10", "space": "nas-bench-201", "learners": 2}


@pytest.fixture
def truth(monkeypatch: pytest.MonkeyPatch) -> Truth:
    """A table in which operations do not interact, as the one of the data root."""
    column = {cell: additive(cell) for cell in every_cell()}
    made = Truth({"cifar10": column, "cifar100": column})
    monkeypatch.setattr("smallgroup.study.truth._found", lambda *_: made)
    return made


def outcome(found: SearchResult, place: Path = Path("nowhere"), **keys: Any) -> Outcome:
    return Outcome(found, resolve({**GROUP, **keys}), place)


def group_of(*at_cost: float | None) -> SearchResult:
    """Learners with these percentiles at cost; those of CIFAR-100 are lower by 10, plain ones higher by 20."""

    def plus(value: float | None, by: float) -> Any:
        return None if value is None else value + by

    found = replace(searched([9.0 - k for k in range(len(at_cost))]), dataset="cifar10")
    known: list[dict[str, Any]] = [
        {
            "percentile_at_cost": {"cifar10": value, "cifar100": plus(value, -10.0)},
            "percentile": {"cifar10": plus(value, 20.0) or 99.0, "cifar100": plus(value, 15.0) or 98.0},
        }
        for value in at_cost
    ]
    learners: list[Any] = [replace(one, **own) for one, own in zip(found.group, known, strict=True)]
    answer: dict[str, Any] = {"percentile_at_cost": {"cifar10": 77.0}, "percentile": {"cifar10": 88.0}}
    return replace(found, group=learners, answer=AnswerRecord("consensus", None, "consensus"), **answer)


def value(name: str, found: Outcome, take: str = "mean") -> float | None:
    return MEASURES[name].value(found, take)


def test_a_learner_without_peers_is_left_out_of_the_mean_at_cost() -> None:
    """As a percentile that is unknown is not: there every learner is needed."""
    some, none = outcome(group_of(40.0, None)), outcome(group_of(None, None))
    assert value("percentile_at_cost", some) == 40.0
    assert value("cifar100_percentile_at_cost", some) == 30.0
    assert value("percentile_at_cost", none) is None
    assert [value("learners_without_peers", one) for one in (outcome(group_of(1.0, 2.0)), some, none)] == [0, 1, 2]
    unknown = replace(some.search, group=[some.search.group[0], replace(some.search.group[1], percentile=None)])
    assert value("percentile", outcome(unknown)) is None


def test_the_other_column_is_that_of_cifar100() -> None:
    found = outcome(group_of(40.0, 60.0))
    assert value("percentile", found) == 70.0
    assert value("cifar100_percentile", found) == 65.0
    assert value("cifar100_percentile_at_cost", found) == 40.0


@pytest.mark.parametrize("take", ["retained", "mean"])
def test_answers_by_rule_do_not_depend_on_what_a_row_takes(take: str) -> None:
    """The last learner has the lowest error, and is retained."""
    found = outcome(group_of(40.0, 60.0))
    assert value("retained_percentile", found, take) == 80.0
    assert value("retained_percentile_at_cost", found, take) == 60.0
    assert value("consensus_percentile", found, take) == 88.0
    assert value("consensus_percentile_at_cost", found, take) == 77.0


def test_a_search_that_answers_otherwise_has_no_consensus() -> None:
    found = replace(group_of(40.0, 60.0), answer=AnswerRecord("retained", 1, "retained"))
    assert value("consensus_percentile", outcome(found)) is None


def write_scores(place: Path, *learners: Any) -> None:
    kept = {"schema": 1, "learners": [{"scores": {"cell": scores}} for scores in learners]}
    (place / "architectures.json").write_text(json.dumps(kept))


def test_scores_are_compared_with_the_effects_of_the_table(truth: Truth, tmp_path: Path) -> None:
    """One learner knows the table, the other the opposite, a third something else."""
    search, other = replace(searched([9.0, 8.0, 7.0]), dataset="cifar10"), [[0.0, 4.0, 3.0, 2.0, 1.0]] * 6
    write_scores(tmp_path, KNOWN, [[-value for value in row] for row in KNOWN], other)
    found = outcome(search, tmp_path)
    third = score_correlation(other, truth.additive_fit("cifar10"))
    assert third is not None
    assert value("score_correlation", found, "first") == pytest.approx(1.0)
    assert value("score_correlation", found, "retained") == pytest.approx(third)
    assert value("score_correlation", found, "mean") == pytest.approx(third / 3)


@pytest.mark.usefixtures("truth")
@pytest.mark.parametrize(
    "text",
    [
        None,
        "no json",
        "[]",
        '{"learners": [{"scores": {"normal": [[1, 2]]}}]}',
        '{"learners": [{"scores": {"cell": [[null, 1, 2, 3, 4]]}}]}',
        '{"learners": [{"scores": {"cell": [[1, 2], [3, 4]]}}]}',
        '{"learners": [{"scores": {"cell": [["a", "b", "c", "d", "e"]]}}]}',
    ],
)
def test_scores_that_cannot_be_used_have_no_correlation(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "architectures.json").write_text(text)
    assert value("score_correlation", outcome(replace(searched([9.0]), dataset="cifar10"), tmp_path)) is None


def test_passes_by_hand() -> None:
    """240 steps: 24 of V alone, 156 of V and W, 60 of everything; learners alone have 180 and 60."""
    search = {"epochs": 6, "steps_per_epoch": 40, "v_warmup": 0.1, "architecture_warmup": 0.75}
    keys: dict[str, Any] = {**GROUP, "hypergradient": "finite-difference", "search": search}

    def passes(**changes: Any) -> int:
        return count_passes(resolve({**keys, **changes}), 40)

    group = 2 * (24 * 3 + 156 * 10 + 60 * 34)
    assert passes(**{"lambda": 1}) == group == 7_344
    assert passes(search={**search, "targets": "own", "lambda": 1}) == group
    assert passes(**{"lambda": 0}) == 2 * (180 * 3 + 60 * 12) == 2_520
    assert passes(**{"lambda": 0, "hypergradient": "first-order"}) == 2 * (180 * 3 + 60 * 6)
    shown = outcome(searched([9.0, 8.0]), **{**keys, "lambda": 1})
    assert value("passes", shown) == 7.344
    assert value("passes", replace(shown, labelers=searched([9.0]))) is None


@pytest.mark.usefixtures("truth")
@pytest.mark.parametrize(
    ("columns", "answer", "said"),
    [
        (["consensus_percentile"], "retained", "consensus_percentile needs search.answer: consensus"),
        (["consensus_percentile"], "consensus", None),
        (["cifar100_percentile", "score_correlation"], "retained", None),
    ],
)
def test_what_no_run_could_say_is_refused_beforehand(columns: list[str], answer: str, said: str | None) -> None:
    base = {**GROUP, "search": {"answer": answer}}
    plan = plan_of(base=base, columns=columns, primary="percentile", seeds=[1])
    if said is None:
        check_measurable(plan)
    else:
        with pytest.raises(ValueError, match=said):
            check_measurable(plan)


def test_a_table_without_the_other_column_is_refused_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    column = {cell: additive(cell) for cell in every_cell()}
    monkeypatch.setattr("smallgroup.study.truth._found", lambda *_: Truth({"cifar10": column, "other": column}))
    plan = plan_of(base=GROUP, columns=["cifar100_percentile"], primary="percentile", seeds=[1])
    with pytest.raises(ValueError, match="needs a column cifar100, but the table has cifar10, other"):
        check_measurable(plan)


def test_a_ground_truth_without_effects_is_refused_beforehand(truth: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "effects_in_words", lambda _: None)
    plan = plan_of(base=GROUP, columns=["score_correlation"], primary="percentile", seeds=[1])
    with pytest.raises(
        ValueError, match="score_correlation needs the effects of operations, but nas-bench-201 has none"
    ):
        check_measurable(plan)


@pytest.mark.usefixtures("truth")
def test_the_footer_says_how_much_the_effects_explain(tmp_path: Path) -> None:
    rows = [{"name": "a", "take": "mean"}, {"name": "b", "config": {"lambda": 0}, "take": "mean"}]
    plan = plan_of(base=GROUP, rows=rows, claims=[], columns=["score_correlation"], primary="percentile", seeds=[1])
    lines = footer(plan, Store(tmp_path))
    assert lines[0].endswith("percentile, mean of all learners of a search, as are all numbers of learners")
    assert lines[1].endswith("column cifar10, over all cells, R^2 = 1.000")
    assert sum("R^2" in line for line in lines) == 1
