"""Outcomes: how they are kept, compared and shown."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import scipy

from smallgroup.bench.outcome import store, table
from smallgroup.bench.outcome.arms import ARMS, SAME_COST, ArmOutcome
from smallgroup.bench.outcome.plan import FEW, FEW_SEEDS, FULL_SEEDS, OutcomeTable, Unit, tables
from smallgroup.bench.outcome.tasks import OutcomeTask
from smallgroup.bench.outcome.work import waiting

TASK = OutcomeTask("made", "digits", 10.0)


def outcome(arm: str, seed: int, error: float) -> ArmOutcome:
    return ArmOutcome(arm, TASK.name, seed, error, 1000, 2000, 30, 3, 9.5)


def kept(folder: Path, errors: dict[str, dict[int, float]]) -> OutcomeTable:
    for arm, by_seed in errors.items():
        for seed, error in by_seed.items():
            store.write(folder, Unit(TASK, arm, seed), outcome(arm, seed, error))
    return OutcomeTable(TASK, tuple(ARMS)[:3], (1, 2, 3))


def test_the_interval_is_that_of_students_t_over_the_seeds_that_both_have() -> None:
    own, other = {1: 10.0, 2: 12.0, 3: 11.0, 4: 50.0}, {1: 11.0, 2: 12.5, 3: 13.0, 9: 0.0}
    found = table.paired(own, other)
    assert found is not None
    test = scipy.stats.ttest_rel([10.0, 12.0, 11.0], [11.0, 12.5, 13.0])
    low, high = test.confidence_interval(0.95)
    assert found.seeds == 3
    assert found.difference == pytest.approx(-3.5 / 3)
    assert found.interval == pytest.approx((float(low), float(high)))
    assert table.paired({1: 1.0}, {2: 1.0}) is None
    assert table.paired({1: 1.0}, {1: 3.0}) == table.Paired(1, -2.0, None)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((-2.0, -0.1), "better"),
        ((-2.0, 0.1), "not told apart"),
        ((0.1, 0.9), "behind by less than the margin"),
        ((0.1, 1.1), "worse"),
        (None, "one seed"),
    ],
)
def test_what_can_be_said(interval: tuple[float, float] | None, verdict: str) -> None:
    assert table.Paired(5, 0.0, interval).verdict == verdict


def test_rows_are_paired_with_run_and_only_what_is_left_is_measured(tmp_path: Path) -> None:
    first, second, third = tuple(ARMS)[:3]
    made = kept(tmp_path, {first: {1: 10.0, 2: 12.0}, second: {1: 11.0, 2: 14.0, 3: 9.0}})
    rows = table.rows(tmp_path, made)
    assert [row.arm for row in rows] == [first, second]
    assert rows[0].paired is None
    assert rows[1].paired is not None
    assert (rows[1].paired.difference, rows[1].paired.seeds) == (-1.5, 2)
    assert rows[0].error == 11.0
    assert rows[0].deviation == pytest.approx(math.sqrt(2))
    assert [(unit.arm, unit.seed) for unit in waiting(tmp_path, [made])] == [
        (third, 1),
        (third, 2),
        (first, 3),
        (third, 3),
    ]
    text = table.markdown(tmp_path, [made])
    assert "| run | 11.00 ± 1.41 |" in text
    assert "5 of 9 outcomes." in text


def test_an_outcome_is_read_back_and_another_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    unit, own = Unit(TASK, "run", 3), outcome("run", 3, 7.5)
    assert store.read(tmp_path, unit) is None
    store.write(tmp_path, unit, own)
    assert store.read(tmp_path, unit) == own
    store.write(tmp_path, unit, replace(own, seed=4))
    with pytest.raises(ValueError, match="must hold the outcome of run with seed 3, but it holds another"):
        store.read(tmp_path, unit)
    (tmp_path / unit.name).write_text("{")
    with pytest.raises(ValueError, match="must hold an outcome, but it does not"):
        store.read(tmp_path, unit)


def test_the_tables_are_those_of_the_protocol(tmp_path: Path) -> None:
    found = {one.task.name: one for one in tables(tmp_path)}
    assert {name: one.task.seconds for name, one in found.items()} == {
        "digits-2m": 120.0, "cifar10-5m": 300.0, "clothing-5m": 300.0, "cifar100-5m": 300.0, "cifar10-15m": 900.0,
    }  # fmt: skip
    assert [len(one.arms) for one in found.values()] == [12, 12, 12, 4, 4]
    assert [one.seeds for one in found.values()] == [FULL_SEEDS] * 3 + [FEW_SEEDS] * 2
    assert (len(FULL_SEEDS), len(FEW_SEEDS)) == (10, 5)
    assert min(FULL_SEEDS) > 1000  # nothing was tuned on these
    assert set(FEW) < set(ARMS)
    assert len(SAME_COST) == 4
    names = [unit.name for one in found.values() for unit in one.units()]
    assert len(set(names)) == len(names)
    assert all(next(one.units()).arm == "run" for one in found.values())
