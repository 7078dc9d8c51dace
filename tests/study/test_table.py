"""From results to numbers and verdicts, with results made by hand."""

from pathlib import Path
from typing import Any

import pytest

from smallgroup.spaces.nas_bench_201 import Truth
from smallgroup.spaces.nas_bench_201.cell import every_cell
from smallgroup.statistics import compare_paired
from smallgroup.study import Plan, planned, tabulated
from smallgroup.study.file import Claim, parsed
from smallgroup.study.table import Verdict
from tests.study.hand_made import by_row, store_of
from tests.study.test_baselines import convolutions

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
    assert not Verdict(claim, {}, {"b": found}, {"b": found.p}).holds


@pytest.mark.parametrize("kind", ["random", "evolution"])
def test_who_looks_accuracies_up_is_scored_by_another_column(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of one column is the worst of the other here."""
    column = {cell: convolutions(cell) for cell in every_cell()}
    truth = Truth({"cifar10": {cell: 60.0 - value for cell, value in column.items()}, "cifar100": column})
    monkeypatch.setattr("smallgroup.study.table._found", lambda _: truth)
    base = {"dataset": "cifar10", "space": "nas-bench-201"}
    rows = [{"name": "looked up", "baseline": {"kind": kind, "lookups": 100}}]
    columns = ["true_accuracy", "percentile"]
    plan = plan_of(base=base, rows=rows, claims=[], seeds=[1, 2], columns=columns, primary="true_accuracy")
    entries = tabulated(plan, store_of(plan, tmp_path, by_row({}))).rows[0].entries
    assert max(entries["true_accuracy"].values.values()) <= 25.0
    assert max(entries["percentile"].values.values()) < 50.0
