"""Which steps are measured, and what is said about them."""

from dataclasses import replace

import pytest
import torch

from smallgroup.bench import operations, step
from smallgroup.bench.cases import prepared
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.network_step import NetworkStep
from smallgroup.bench.one_row import Contender
from smallgroup.bench.operation import MeasuredOperation, every_operation
from smallgroup.bench.paths import PLAIN
from smallgroup.bench.plans import QUICK, StepPlan, combined, planned
from smallgroup.bench.step import grown, measure
from smallgroup.bench.timing import MeasuredTurns, Turn, TurnWatch

TINY = {"channels": 4, "cells": 3, "cells_per_stage": 1, "batch": 3, "size": 8}


def test_without_options_the_rows_are_those_of_the_targets() -> None:
    plan = planned({}, {})
    assert [(case.name, (plan.at_least or {})[case.name]["native"]) for case in plan.cases] == [
        ("darts in darts, C=16, 8 cells, batch 50, 32x32, K=2, first-order", 4),
        ("darts in darts, C=16, 8 cells, batch 50, 32x32, K=2, finite-difference", 4),
        ("darts in nas-bench-201, C=16, N=1, batch 50, 32x32, K=2, first-order", 2),
        ("darts in nas-bench-201, C=16, N=5, batch 50, 32x32, K=2, first-order", 2),
        ("network of DARTS_V2, C=36, 20 cells, batch 96, 32x32, training", 2),
    ]
    assert plan.beside == [GroupStep(learners=4)]


def test_sizes_hold_for_every_row_and_targets_for_the_standard_ones_alone() -> None:
    plan = planned({}, {"batch": 7, "cells_per_stage": 2})
    assert {case.batch for case in (*plan.cases, *plan.beside)} == {7}
    # Two rows are one now.
    assert [case.space for case in plan.cases if isinstance(case, GroupStep)] == ["darts", "darts", "nas-bench-201"]
    assert not {case.name for case in plan.cases} & (plan.at_least or {}).keys()


def test_options_are_combined() -> None:
    found = combined({"learners": [1, 2, 2], "hypergradient": ["first-order", "exact"]}, {"batch": 4})
    assert [(case.learners, case.hypergradient) for case in found] == [
        (1, "first-order"),
        (1, "exact"),
        (2, "first-order"),
        (2, "exact"),
    ]
    assert {case.batch for case in found} == {4}
    assert combined({}, {}) == [GroupStep()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"space": "nasbench"}, "space must be one of darts, nas-bench-201, .*, but got 'nasbench'"),
        ({"method": "drats"}, "method must be one of .*darts, .*, but got 'drats'"),
        ({"hypergradient": "second"}, "hypergradient must be one of .*, but got 'second'"),
        ({"learners": 0}, "learners >= 1 must hold, but got learners=0"),
        ({"batch": 0}, "batch >= 1 must hold"),
        ({"cells": 2}, "space.cells: Input should be greater than or equal to 3, but got '2'"),
        ({"channels": 0}, "channels >= 1 must hold"),
        ({"size": 2}, "image_size >= 4 must hold"),
    ],
)
def test_steps_that_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GroupStep(), **changes)  # type: ignore[arg-type]


def test_larger_groups_are_compared_with_the_next_smaller_one() -> None:
    groups = [GroupStep(learners=4), GroupStep(learners=1), GroupStep(learners=2), GroupStep(batch=8, learners=2)]
    times = [8.0, 1.0, 4.0, 1.0]
    found = {group: MeasuredTurns((t, t)) for group, t in zip(groups, times, strict=True)}
    assert [(one.learners, one.ratio, one.at_most) for one in grown(found)] == [
        ((1, 2), 4, None),
        ((2, 4), 2, 2.1),
    ]


def test_what_is_compared_has_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[tuple[str, str]]] = []

    def measured(contenders: list[Contender], rounds: int, watch: TurnWatch) -> list[MeasuredTurns]:
        asked.append([(case.name, path) for case, path in contenders])
        for turn in range((rounds + 1) * len(contenders)):
            watch(Turn("", turn, (rounds + 1) * len(contenders), 0, 7.0))
        times = [(len(asked) * factor,) for factor, _ in enumerate(contenders, start=1)]
        return [MeasuredTurns(one, cpu_seconds=one) for one in times]

    monkeypatch.setattr(step, "measured", measured)
    small, large, other = GroupStep(), GroupStep(learners=4), NetworkStep()
    turns: list[Turn] = []
    found = measure(StepPlan([small, other], [large]), "torch", 1, turns.append)
    assert asked == [
        [(small.name, "plain"), (small.name, "torch")],
        [(other.name, "plain"), (other.name, "torch")],
        [(small.name, "torch"), (large.name, "torch")],
    ]
    assert [(row.plain_seconds, row.fast_seconds) for row in found.rows] == [(1, 2), (2, 4)]
    assert [one.seconds for one in found.growth] == [(3, 6)]
    assert [(turn.number, turn.turns, turn.left) for turn in turns] == [
        (number, 12, None if number < 8 else 7.0) for number in range(12)
    ]


def test_both_forms_of_a_step_agree_and_rows_say_so() -> None:
    cases: list[GroupStep | NetworkStep] = [
        GroupStep(space="nas-bench-201", hypergradient="finite-difference", **TINY),  # type: ignore[arg-type]
        NetworkStep(channels=4, cells=3, batch=3, size=8),
    ]
    found = measure(StepPlan(cases), "torch", 1)
    assert [row.name for row in found.rows] == [case.name for case in cases]
    document = found.to_dict()
    assert document["growth"] == []
    for row in document["rows"]:
        assert row["ratio"] == row["plain_seconds"] / row["fast_seconds"]
        assert row["difference"] < 1e-4
        assert row["path"] == "torch"
        assert row["at_least"] is None
        assert row["batch"] == 3
    assert document["rows"][0]["relative"] == 1
    assert document["rows"][0]["cells_per_stage"] == 1
    assert "cells" not in document["rows"][0]


def test_a_network_goes_on_to_learn_alike_in_both_forms() -> None:
    case = NetworkStep(channels=4, cells=3, batch=3, size=8)
    plain, fast = prepared(case.plain, PLAIN), prepared(case.fast, "torch")
    losses = [(float(plain()[0]), float(fast()[0])) for _ in range(3)]  # type: ignore[arg-type]
    assert losses[0] != losses[1]
    for one, other in losses:
        assert one == pytest.approx(other, rel=1e-3)


def test_every_operation_is_there_and_agrees() -> None:
    cases = every_operation(channels=4, batch=2, size=5)
    assert len(cases) == 7 * 2 + 4
    assert len({case.name for case in cases}) == len(cases)
    rows = operations.measure(cases, "torch", 1, least=1e-6)
    for row, case in zip(rows, cases, strict=True):
        assert row.difference < 1e-4, row.name
        assert row.sizes["operation"] == case.operation


def test_an_operation_gives_its_output_and_the_gradients_of_input_and_filters() -> None:
    case = MeasuredOperation(space="nas-bench-201", operation="nor_conv_3x3", stride=1, channels=4, batch=2, size=5)
    found = prepared(case.plain, PLAIN)()
    assert [None if tensor is None else tuple(tensor.shape) for tensor in found] == [
        (2, 4, 5, 5),
        (2, 4, 5, 5),
        (4, 4, 3, 3),
    ]
    assert all(bool(torch.as_tensor(tensor).any()) for tensor in found)


def test_random_numbers_of_others_are_left_alone() -> None:
    before = torch.get_rng_state()
    case = GroupStep(space="nas-bench-201", learners=1, **TINY)  # type: ignore[arg-type]
    prepared(case.plain, PLAIN)()
    prepared(every_operation(channels=4, batch=2, size=5)[0].fast, "torch")()
    assert torch.equal(before, torch.get_rng_state())
    assert QUICK.keys() == TINY.keys()
