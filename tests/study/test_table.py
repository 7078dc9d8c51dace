"""From results to numbers and verdicts, with results made by hand."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from smallgroup.config import resolve
from smallgroup.phases.search.answer import AnswerRecord
from smallgroup.spaces.nas_bench_201 import Truth
from smallgroup.spaces.nas_bench_201.cell import every_cell
from smallgroup.statistics import compare_paired, holm
from smallgroup.study import Plan, Store, planned, tabulated
from smallgroup.study.baselines import untrained
from smallgroup.study.file import Claim, keys_of, parsed
from smallgroup.study.formats import comma_separated, grid, number, sentences
from smallgroup.study.plan import PlannedRun
from smallgroup.study.table import Verdict, check_measurable
from tests.study.hand_made import CELL, by_row, searched, store_of, trained
from tests.study.test_baselines import convolutions

OWN = {"search": {"targets": "own"}}
STUDY: dict[str, Any] = {
    "title": "by hand",
    "seeds": "1-8",
    "columns": ["validation_error"],
    "primary": "validation_error",
    "rows": [
        {"name": "group", "config": {"learners": 2}},
        {"name": "taught", "config": {"search": {"targets": "own"}}},
    ],
    "claims": [{"says": "it helps", "row": "group", "than": ["taught"]}],
}


def plan_of(**changes: Any) -> Plan:
    return planned("hand", parsed({**STUDY, **changes}))


@pytest.mark.parametrize(("gain", "holds"), [(1.0, True), (-1.0, False)])
def test_less_of_an_error_is_better(gain: float, holds: bool, tmp_path: Path) -> None:
    plan = plan_of()
    rows = {"group": lambda seed: [40.0 + seed - gain * seed, 90.0], "taught": lambda seed: [40.0 + seed, 90.0]}
    (verdict,) = tabulated(plan, store_of(plan, tmp_path, by_row(rows))).verdicts
    found = verdict.comparisons["taught"]
    assert found is not None
    assert verdict.holds is holds
    assert found.difference == pytest.approx(4.5 * gain)
    assert (found.better, found.worse) == ((8, 0) if holds else (0, 8))


def test_losses_that_outweigh_gains_are_no_yes() -> None:
    """Seventeen small gains, fifteen large losses: the median is above zero, and p is about the opposite."""
    gains = [0.01 + 0.001 * n for n in range(17)] + [-5.0 - 0.1 * n for n in range(15)]
    found = compare_paired(dict(enumerate(gains)), dict.fromkeys(range(32), 0.0))
    assert found.difference > 0
    assert found.p is not None
    assert found.p < 0.05
    claim = Claim(says="it helps", row="a", than=("b",))
    assert not Verdict(claim, "percentile", {}, {"b": found}, {"b": found.p}, {"b": found.smallest_p}).holds


def test_gains_that_are_outweighed_in_the_middle_are_no_yes() -> None:
    """Ranks for the first row, and a median against it: fifteen large gains, seventeen losses that are next to none."""
    gains = [-0.01 - 0.001 * n for n in range(17)] + [5.0 + 0.1 * n for n in range(15)]
    found = compare_paired(dict(enumerate(gains)), dict.fromkeys(range(32), 0.0))
    assert found.difference < 0
    assert found.effect is not None
    assert found.effect > 0
    assert found.p is not None
    assert found.p < 0.05
    claim = Claim(says="it helps", row="a", than=("b",))
    assert not Verdict(claim, "percentile", {}, {"b": found}, {"b": found.p}, {"b": found.smallest_p}).holds


def test_an_untrained_row_takes_one_learner_or_the_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    column = {cell: convolutions(cell) for cell in every_cell()}
    monkeypatch.setattr("smallgroup.study.truth._found", lambda *_: Truth({"cifar10": column, "cifar100": column}))
    own: dict[str, Any] = {"baseline": {"kind": "untrained"}, "config": {"learners": 3}}
    rows = [{"name": "first", **own}, {"name": "all", **own, "take": "mean"}]
    base = {"dataset": "cifar10", "space": {"name": "nas-bench-201", "derive": "benchmark"}}
    plan = plan_of(base=base, rows=rows, claims=[], seeds=[1, 2], columns=["true_accuracy"], primary="true_accuracy")
    first, everyone = (row.entries["true_accuracy"].values for row in tabulated(plan, Store(tmp_path)).rows)
    for seed, line in zip((1, 2), (plan.lines[0],) * 2, strict=True):
        cells = untrained(resolve(keys_of(plan.study, line.point, line.row, seed)))
        accuracies = [convolutions(cell) for cell in cells]
        assert len(set(accuracies)) > 1
        assert first[seed] == accuracies[0]
        assert everyone[seed] == pytest.approx(sum(accuracies) / 3)


@pytest.mark.parametrize("kind", ["random", "evolution"])
def test_who_looks_accuracies_up_is_scored_by_another_column(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of one column is the worst of the other here."""
    column = {cell: convolutions(cell) for cell in every_cell()}
    truth = Truth({"cifar10": {cell: 60.0 - value for cell, value in column.items()}, "cifar100": column})
    monkeypatch.setattr("smallgroup.study.truth._found", lambda *_: truth)
    base = {"dataset": "cifar10", "space": "nas-bench-201"}
    rows = [{"name": "looked up", "baseline": {"kind": kind, "lookups": 100}}]
    columns = ["true_accuracy", "percentile", "percentile_at_cost"]
    plan = plan_of(base=base, rows=rows, claims=[], seeds=[1, 2], columns=columns, primary="true_accuracy")
    entries = tabulated(plan, store_of(plan, tmp_path, by_row({}))).rows[0].entries
    assert max(entries["true_accuracy"].values.values()) <= 25.0
    assert max(entries["percentile"].values.values()) < 50.0
    assert all(0.0 < value < 100.0 for value in entries["percentile_at_cost"].values.values())


def test_seeds_pair_what_they_mean_the_same_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrained architecture is where a search of that seed begins; a random search shares nothing with it."""
    column = {cell: convolutions(cell) for cell in every_cell()}
    monkeypatch.setattr("smallgroup.study.truth._found", lambda *_: Truth({"cifar10": column, "cifar100": column}))
    rows = [
        {"name": "group", "config": {"learners": 2}},
        *({"name": kind, "baseline": {"kind": kind}} for kind in ("untrained", "random", "evolution")),
    ]
    claims = [{"says": "it helps", "row": "group", "than": ["untrained", "random", "evolution"]}]
    base = {"dataset": "cifar10", "space": "nas-bench-201"}
    plan = plan_of(base=base, rows=rows, claims=claims, columns=["percentile"], primary="percentile")

    def result(_: str, run: PlannedRun) -> Any:
        return replace(searched([9.0], percentile={"cifar10": 99.0 + 0.1 * run.config.seed}), dataset="cifar10")

    table = tabulated(plan, store_of(plan, tmp_path, result))
    (verdict,) = table.verdicts
    kinds = {name: found.kind for name, found in verdict.comparisons.items() if found is not None}
    assert kinds == {"untrained": "wilcoxon", "random": "welch", "evolution": "welch"}
    values = {row.name: list(row.entries["percentile"].values.values()) for row in table.rows}
    found = verdict.comparisons["random"]
    assert found is not None
    assert found.p == stats.ttest_ind(values["group"], values["random"], equal_var=False).pvalue
    # Two tests of means could be as clear as one likes: Holm is left with one comparison of signed ranks.
    assert verdict.possible == {"untrained": 2.0**-7, "random": 0.0, "evolution": 0.0}


TRAINED: dict[str, Any] = {"phases": ["search", "train"], "columns": ["test_error"], "primary": "test_error"}


@pytest.mark.parametrize("take", ["first", "mean"])
def test_a_training_is_that_of_the_retained_cell(take: str) -> None:
    rows = [{"name": "other", "config": {"learners": 2}, "take": take}]
    with pytest.raises(ValueError, match=f"beside test_error, but 'other' takes {take}"):
        plan_of(**TRAINED, rows=rows, claims=[])


def test_what_a_run_cost_is_not_what_its_first_learner_cost(tmp_path: Path) -> None:
    rows = [
        {"name": "alone", "config": {"learners": 2, "lambda": 0}, "take": "first"},
        {"name": "independent", "config": {"learners": 2, "lambda": 0}},
        {"name": "one", "config": {"learners": 1}, "take": "first"},
    ]
    columns = ["validation_error", "seconds", "search_days"]
    plan = plan_of(rows=rows, columns=columns, claims=[], seeds=[1])
    store = store_of(plan, tmp_path, lambda _, run: searched([9.0, 8.0][: len(run.config.learners)], seconds=86_400))
    alone, independent, one = (row.entries for row in tabulated(plan, store).rows)
    assert [alone[name].values for name in columns] == [{1: 9.0}, {}, {}]
    assert [independent[name].values for name in columns] == [{1: 8.0}, {1: 86_400}, {1: 1.0}]
    assert one["seconds"].values == {1: 86_400}


def test_separate_stages_cost_what_the_labelers_cost_too(tmp_path: Path) -> None:
    rows = [{"name": "separate", "config": {"learners": 2}, "labelers": {"lambda": 0}}]
    plan = plan_of(rows=rows, columns=["validation_error", "seconds"], claims=[], seeds=[1])
    store = store_of(plan, tmp_path, lambda _, run: searched([9.0, 8.0], seconds=5.0 if run.labelers else 7.0))
    assert tabulated(plan, store).rows[0].entries["seconds"].values == {1: 12.0}


def test_what_cannot_be_said_is_a_dash(tmp_path: Path) -> None:
    """No loss, no held-out images, no ground truth, no test image."""
    columns = ["validation_error", "validation_loss", "supernet_held_out_error", "percentile", "test_error"]
    plan = plan_of(phases=["search", "train"], columns=columns, claims=[], seeds=[1, 2])

    def result(_: str, run: PlannedRun) -> Any:
        if run.trains is not None:
            return trained(7.0, held_out=True)
        return searched([math.nan if run.config.seed == 1 else 9.0])

    entries = tabulated(plan, store_of(plan, tmp_path, result)).rows[0].entries
    assert [sorted(entries[name].values) for name in columns] == [[2], [2], [], [], []]
    assert number(entries["percentile"], 1) == "–"
    said = sentences(tabulated(plan, store_of(plan, tmp_path, result)))
    assert "group: validation error, % is not known of seed 1, though the runs are done" in said


@pytest.mark.parametrize(("take", "value"), [("retained", 7.0), ("first", 9.0), ("mean", 8.0)])
def test_the_mean_of_all_learners_stands_beside_whoever_counts(take: str, value: float, tmp_path: Path) -> None:
    plan = plan_of(rows=[{"name": "a", "take": take}], claims=[], seeds=[1, 2])
    store = store_of(plan, tmp_path, lambda _, run: searched([9.0 + run.config.seed, 7.0 + run.config.seed]))
    (row,) = tabulated(plan, store).rows
    assert row.entries["validation_error"].values == {1: value + 1, 2: value + 2}
    assert row.all_learners.values == {1: 9.0, 2: 10.0}


def test_an_answer_that_is_no_learners_has_numbers_of_its_own(tmp_path: Path) -> None:
    """Percentile and skips of its cell; errors of W, which it does not have, are those of the retained learner."""
    columns = ["percentile", "true_accuracy", "skips", "validation_error"]
    rows = [{"name": take, "take": take} for take in ("retained", "first", "mean")]
    plan = plan_of(rows=rows, claims=[], seeds=[1], columns=columns)
    known: dict[str, Any] = {"percentile": {"digits": 50.0}, "true_accuracy": {"digits": 80.0}}

    def result(*_: Any) -> Any:
        record = AnswerRecord("consensus", None, "consensus")
        mine: dict[str, Any] = {"percentile": {"digits": 90.0}, "true_accuracy": {"digits": 93.0}}
        skips = CELL.replace("nor_conv_3x3", "skip_connect")
        return replace(searched([9.0, 8.0], **known), answer=record, genotype=skips, **mine)

    entries = [row.entries for row in tabulated(plan, store_of(plan, tmp_path, result)).rows]
    found = [[own[name].values[1] for name in columns] for own in entries]
    assert found == [[90.0, 93.0, 4.0, 8.0], [50.0, 80.0, 2.0, 9.0], [50.0, 80.0, 2.0, 8.5]]


def test_a_mean_needs_every_learner(tmp_path: Path) -> None:
    plan = plan_of(rows=[{"name": "a", "take": "mean"}], claims=[], seeds=[1], columns=["percentile"])

    def result(*_: Any) -> Any:
        found = searched([9.0, 8.0], percentile={"digits": 50.0})
        return replace(found, group=[found.group[0], replace(found.group[1], percentile=None)])

    assert tabulated(plan, store_of(plan, tmp_path, result)).rows[0].entries["percentile"].values == {}


def test_a_failure_that_was_overcome_is_none(tmp_path: Path) -> None:
    plan = plan_of(rows=[{"name": "a"}], claims=[], seeds=[1])
    store = store_of(plan, tmp_path, lambda *_: searched([9.0]))
    store.folder(plan.runs[0]).mkdir(parents=True)
    store.record_failure(plan.runs[0], "it broke")
    assert tabulated(plan, store).rows[0].failed == []


def test_the_primary_measure_is_always_a_column(tmp_path: Path) -> None:
    plan = plan_of(columns=["skips", "skips"], seeds=[1])
    assert tabulated(plan, Store(tmp_path)).columns == ("skips", "validation_error")


@pytest.mark.parametrize(
    ("measure", "held_out", "words"),
    [
        ("supernet_held_out_error", 0.0, "supernet_held_out_error needs data.held_out"),
        ("held_out_error", 0.0, "held_out_error needs data.held_out"),
        ("test_error", 0.1, "in 'group' data.held_out is 0.1"),
    ],
)
def test_a_column_of_other_images_is_refused_before_the_runs(measure: str, held_out: float, words: str) -> None:
    change = {"phases": ["search", "train"], "columns": [measure], "primary": "validation_error", "claims": []}
    with pytest.raises(ValueError, match=words):
        check_measurable(plan_of(**change, base={"data": {"held_out": held_out}}))
    check_measurable(plan_of(**change, base={"data": {"held_out": 0.1 - held_out}}))


def test_searches_and_retrainings_are_told_apart(tmp_path: Path) -> None:
    """Cells of 10, 20, 30 percent, each trained twice, two percent apart."""
    plan = plan_of(**TRAINED, retrainings=2, seeds=[1, 2, 3])

    def result(_: str, run: PlannedRun) -> Any:
        if run.trains is None:
            return searched([9.0])
        return trained(10.0 * run.trains.config.seed + (1.0 if run.config.seed > 100_000 else -1.0))

    table = tabulated(plan, store_of(plan, tmp_path, result))
    assert number(table.rows[0].entries["test_error"], 2) == "20.00 ± 10.00"
    assert "standard deviation over retrainings of one cell, test error, %: group 1.41; taught 1.41" in sentences(table)
    once = tabulated(plan_of(**TRAINED), store_of(plan, tmp_path, result))
    assert not any("retrainings" in said for said in sentences(once))


@pytest.mark.parametrize(
    ("grid", "claimed"),
    [
        ({"learners": [1, 2]}, [{"learners": 2}]),  # a group of one is no group
        ({"lambda": [0, 1]}, [{"lambda": 1}]),  # nobody hears what is taught
    ],
)
@pytest.mark.parametrize("beside", [[], ["uniform"]])
def test_a_claim_is_not_made_where_its_rows_are_one_search(
    grid: dict[str, Any], claimed: list[dict[str, Any]], beside: list[str], tmp_path: Path
) -> None:
    other = OWN if "lambda" in grid else {"lambda": 0}
    third = {"name": "uniform", "config": {"search": {"targets": "uniform"}}}
    rows = [{"name": "group", "config": {}}, {"name": "taught", "config": other}, third]
    claims = [{"says": "it helps", "row": "group", "than": ["taught", *beside]}]
    plan = plan_of(grid=grid, rows=rows, claims=claims, seeds=[1])
    assert [verdict.point for verdict in tabulated(plan, Store(tmp_path)).verdicts] == claimed


def test_a_learner_that_teaches_itself_is_no_learner_alone(tmp_path: Path) -> None:
    plan = plan_of(base={"learners": 1}, rows=[{"name": "group"}, {"name": "taught", "config": OWN}], seeds=[1])
    assert len(tabulated(plan, Store(tmp_path)).verdicts) == 1


def test_the_smallest_p_counts_all_comparisons(tmp_path: Path) -> None:
    """With 6 seeds 0.031, which is 0.0625 after Holm with two comparisons; and with one it would do."""
    rows = [*STUDY["rows"], {"name": "third", "config": {"learners": 3}}]
    ways: dict[str, Any] = {
        name: lambda seed, k=k: [40.0 + k * seed] for k, name in enumerate(("group", "taught", "third"))
    }
    for than, words in ((["taught"], "smallest p 0.0312"), (["taught", "third"], "0.0312 and 0.0625 after Holm")):
        claims = [{"says": "it helps", "row": "group", "than": than}]
        plan = plan_of(seeds="1-6", rows=rows, claims=claims)
        table = tabulated(plan, store_of(plan, tmp_path, by_row(ways)))
        assert table.verdicts[0].holds == (len(than) == 1)
        assert words in sentences(table)[1]


def test_an_answer_without_peers_of_its_cost_is_left_out_of_the_mean(tmp_path: Path) -> None:
    columns = ["percentile", "percentile_at_cost"]
    plan = plan_of(rows=[{"name": "a"}], claims=[], seeds=[1, 2], columns=columns, primary="percentile_at_cost")

    def result(_: str, run: PlannedRun) -> Any:
        at_cost = None if run.config.seed == 2 else 60.0
        return searched([9.0], percentile={"digits": 50.0}, percentile_at_cost={"digits": at_cost})

    (row,) = tabulated(plan, store_of(plan, tmp_path, result)).rows
    assert row.entries["percentile"].values == {1: 50.0, 2: 50.0}
    assert row.entries["percentile_at_cost"].values == {1: 60.0}
    assert row.without == [2]


SHIFTS = [-1.5, -0.5, 0.5, 1.5, -1.0, 1.0, -0.25, 0.25]
"""Of eight seeds: nothing in the mean, next to nothing in the spread."""


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        (3.0, 4.0, "yes"),
        (0.0, 0.1, "equivalent"),
        (0.0, 4.0, "no"),  # better than the one, equivalent to the other
        (-3.0, 4.0, "no"),  # worse than one of them
        (4.0, None, "undecided"),  # better than the one, and who knows of the other
    ],
)
def test_with_a_margin_a_claim_has_four_answers(
    first: float, second: float | None, answer: str, tmp_path: Path
) -> None:
    """By how much the group is better than each of two rows; None: 9 more and 9 less in turn."""
    rows = [*STUDY["rows"], {"name": "third", "config": {"learners": 3}}]
    claim = {"says": "it helps", "row": "group", "than": ["taught", "third"]}

    def worse_by(difference: float | None, seed: int) -> float:
        return 9.0 * (-1) ** seed + 0.1 * seed if difference is None else difference + SHIFTS[seed - 1]

    ways: dict[str, Any] = {
        "group": lambda _: [40.0],
        "taught": lambda seed: [40.0 + worse_by(first, seed)],
        "third": lambda seed: [40.0 + worse_by(second, seed)],
    }
    for margin, expected in ((2.0, answer), (None, "yes" if answer == "yes" else "not shown")):
        plan = plan_of(rows=rows, claims=[{**claim, "margin": margin}])
        (verdict,) = tabulated(plan, store_of(plan, tmp_path, by_row(ways))).verdicts
        assert verdict.answer == expected
        assert verdict.holds == (answer == "yes")


def test_a_difference_that_is_shown_is_not_called_equivalent(tmp_path: Path) -> None:
    """Better in every seed, and by less than what matters: better."""
    ways: dict[str, Any] = {"group": lambda _: [40.0], "taught": lambda seed: [40.1 + 0.01 * seed]}
    plan = plan_of(claims=[{**STUDY["claims"][0], "margin": 5.0}])
    (verdict,) = tabulated(plan, store_of(plan, tmp_path, by_row(ways))).verdicts
    within = verdict.adjusted_equivalences["taught"]
    assert within is not None
    assert within < 0.05
    assert verdict.side("taught") == "better"


def test_a_claim_may_be_about_another_measure_and_is_adjusted_apart(tmp_path: Path) -> None:
    """One comparison by each measure: no p is larger for the other one."""
    claims = [STUDY["claims"][0], {**STUDY["claims"][0], "measure": "validation_loss", "margin": 0.5}]
    ways: dict[str, Any] = {"group": lambda seed: [40.0 + seed], "taught": lambda seed: [42.0 + 1.5 * seed]}
    plan = plan_of(claims=claims)
    table = tabulated(plan, store_of(plan, tmp_path, by_row(ways)))
    assert table.columns == ("validation_error", "validation_loss")
    first, second = table.verdicts
    assert (first.measure, second.measure) == ("validation_error", "validation_loss")
    assert first.adjusted == second.adjusted == {"taught": 2.0**-7}
    found, within = second.comparisons["taught"], second.equivalences["taught"]
    assert found is not None
    assert found.difference == pytest.approx(0.0425)  # losses are a hundredth of the errors here; less is better
    assert within is not None
    assert within.difference == pytest.approx(0.0425)
    assert first.equivalences == {}


def test_several_equivalences_are_adjusted_together(tmp_path: Path) -> None:
    rows = [*STUDY["rows"], {"name": "third", "config": {"learners": 3}}]
    claims = [{"says": "it helps", "row": "group", "than": ["taught", "third"], "margin": 2.0}]
    ways: dict[str, Any] = {
        "group": lambda _: [40.0],
        "taught": lambda seed: [40.0 + SHIFTS[seed - 1]],
        "third": lambda seed: [40.5 + SHIFTS[seed - 1]],
    }
    plan = plan_of(rows=rows, claims=claims)
    (verdict,) = tabulated(plan, store_of(plan, tmp_path, by_row(ways))).verdicts
    raw = [one.p for one in verdict.equivalences.values() if one is not None]
    assert [*verdict.adjusted_equivalences.values()] == holm(raw)
    assert verdict.adjusted_equivalences["taught"] == pytest.approx(2 * (raw[0] or 0.0))


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"measure": "skips"}, "more or less is better, not skips"),
        ({"measure": "beauty"}, "a measure must be one of"),
        ({"measure": "test_error"}, "phase train, which is not in phases"),
        ({"margin": 0}, "greater than 0"),
        ({"margin": 5, "than": ["random"]}, "paired by seed, but 'random' is not"),
        ({"margin": 5, "row": "random"}, "paired by seed, but 'random' is not"),
    ],
)
def test_claims_that_cannot_be_tested_are_refused(claim: dict[str, Any], said: str) -> None:
    rows = [*STUDY["rows"], {"name": "random", "baseline": {"kind": "random"}}]
    with pytest.raises(ValueError, match=said):
        plan_of(rows=rows, claims=[{**STUDY["claims"][0], **claim}])


def test_a_claim_that_says_no_more_than_before_has_the_hash_it_had() -> None:
    """Or the tables of finished studies would seem to be of others."""
    plain = plan_of().study.model_dump(mode="json")["claims"]
    assert plain == [{"says": "it helps", "row": "group", "than": ["taught"]}]
    margin = plan_of(claims=[{**STUDY["claims"][0], "margin": 5.0}])
    assert margin.study.model_dump(mode="json")["claims"][0]["margin"] == 5.0
    assert margin.hash != plan_of().hash


@pytest.mark.parametrize(("takes", "shown"), [(("mean", "mean"), False), (("mean", "retained"), True)])
def test_means_of_all_learners_have_one_column(takes: tuple[str, str], shown: bool, tmp_path: Path) -> None:
    """Where every row takes the mean anyway, the primary measure is that of all learners, and claims are about it."""
    rows = [{**row, "take": take} for row, take in zip(STUDY["rows"], takes, strict=True)]
    plan = plan_of(rows=rows)
    ways: dict[str, Any] = {"group": lambda seed: [40.0, 50.0 - seed], "taught": lambda seed: [30.0, 60.0 + seed]}
    table = tabulated(plan, store_of(plan, tmp_path, by_row(ways)))
    assert any("mean of all learners" in title for title in grid(table)[0]) is shown
    assert ("mean of all learners" in comma_separated(table)) is shown
    found = table.verdicts[0].comparisons["taught"]
    assert found is not None
    # 45 - s/2 against 45 + s/2 in the mean; by the retained learner the others would be better.
    assert (found.difference > 0) is not shown
