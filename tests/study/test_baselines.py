"""Rows without a search: what they may look at, and that they do not know the answer."""

import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, cast, get_args

import pytest
import torch

from smallgroup.config import resolve
from smallgroup.runtime import stream
from smallgroup.spaces import Genotype, SpaceDefinition, definition_of
from smallgroup.spaces.nas_bench_201 import Truth
from smallgroup.spaces.nas_bench_201.cell import Cell, every_cell
from smallgroup.study.baselines import Lookups, picked, untrained
from smallgroup.study.discrete import (
    POPULATION,
    SAMPLE,
    SEARCHES,
    evolution,
    local_search,
    neighbors,
    policy_gradients,
    reinforce,
)
from smallgroup.study.file import BaselineRow, parsed
from smallgroup.study.footer import footer
from smallgroup.study.plan import planned
from smallgroup.study.store import Store
from smallgroup.study.table import check_measurable, tabulated
from tests.study.test_work import tiny


def convolutions(cell: Genotype) -> float:
    """A column that one change after the other improves."""
    assert isinstance(cell, Cell)
    return sum({"nor_conv_3x3": 10.0, "nor_conv_1x1": 5.0}.get(operation, 0.0) for operation in cell.operations)


class Counted(dict[Cell, float]):
    """A column that counts who looks."""

    looks = 0

    def __getitem__(self, cell: Cell) -> float:
        self.looks += 1
        return super().__getitem__(cell)


@pytest.fixture(scope="module")
def truth() -> Truth:
    column = {cell: convolutions(cell) for cell in every_cell()}
    return Truth({"cifar10": {cell: 60.0 - value for cell, value in column.items()}, "cifar100": column})


@pytest.mark.parametrize("kind", SEARCHES)
def test_as_many_lookups_as_allowed_and_in_one_column(kind: str, truth: Truth) -> None:
    seen = Truth.__new__(Truth)
    seen.columns = {name: Counted(column) for name, column in truth.columns.items()}
    Lookups(seen, "cifar100", 37).best(kind, 1)
    assert {name: column.looks for name, column in seen.columns.items() if isinstance(column, Counted)} == {
        "cifar10": 0,
        "cifar100": 37,
    }


@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_is_a_function_of_its_seed_and_gives_the_best_it_saw(kind: str, truth: Truth) -> None:
    definition, values = definition_of("nas-bench-201"), []
    search, purpose = SEARCHES[kind]
    proposals = search(definition, stream(3, purpose))
    cell = next(proposals)
    for _ in range(30):
        values.append(convolutions(cell))
        cell = proposals.send(values[-1])
    lookups = Lookups(truth, "cifar100", 30)
    assert convolutions(lookups.best(kind, 3)) == max(values)
    assert lookups.best(kind, 3) == lookups.best(kind, 3)
    assert len({lookups.best(kind, seed) for seed in range(5)}) > 1


def test_random_search_is_better_with_more_lookups(truth: Truth) -> None:
    one, many = (Lookups(truth, "cifar100", n).best("random", 3) for n in (1, 200))
    assert convolutions(many) >= 45 > convolutions(one)


def test_evolution_climbs_where_random_search_does_not(truth: Truth) -> None:
    seeds, lookups = range(8), Lookups(truth, "cifar100", 150)
    evolved, drawn = ([convolutions(lookups.best(kind, seed)) for seed in seeds] for kind in ("evolution", "random"))
    assert sum(evolved) > sum(drawn)
    assert max(evolved) == 60.0


def test_evolution_against_a_slow_reference() -> None:
    """Every cell with its age in a list; of the ten youngest three compete, the best is copied with one change."""
    definition, draw = definition_of("nas-bench-201"), stream(5, "evolution")
    history: list[tuple[int, float, Genotype]] = []
    for born in range(120):
        youngest = sorted(history, key=lambda one: one[0])[-POPULATION:]
        if len(youngest) < POPULATION:
            child: Genotype = definition.sampled(draw)
        else:
            competing = [youngest[int(i)] for i in torch.randperm(POPULATION, generator=draw)[:SAMPLE]]
            parent = sorted(competing, key=lambda one: -one[1])[0]
            child = definition.mutated(parent[2], draw)
        history.append((born, convolutions(child), child))
    proposals = evolution(definition, stream(5, "evolution"))
    cell = next(proposals)
    for _, value, expected in history:
        assert cell == expected
        cell = proposals.send(value)


def test_in_evolution_the_oldest_dies(truth: Truth) -> None:
    """In a column that grows worse with every look, who kept the best would breed from the first ones for ever."""

    class Worsening(dict[Cell, float]):
        seen: ClassVar[list[Cell]] = []

        def __getitem__(self, cell: Cell) -> float:
            self.seen.append(cell)
            return -float(len(self.seen))

    falling = Truth.__new__(Truth)
    falling.columns = {"cifar100": Worsening(truth.columns["cifar100"])}
    assert Lookups(falling, "cifar100", 200).best("evolution", 1) == Worsening.seen[0]
    for number, child in enumerate(Worsening.seen[POPULATION:], start=POPULATION):
        alive = Worsening.seen[number - POPULATION : number]
        changes = [sum(a != b for a, b in zip(child.operations, cell.operations, strict=True)) for cell in alive]
        assert min(changes) <= 1  # 0: a sibling


def test_neighbors_are_all_that_differ_in_one_decision() -> None:
    sizes = (2, 3, 1, 4)
    every = list(product(*map(range, sizes)))
    for here in every:
        expected = {other for other in every if sum(a != b for a, b in zip(here, other, strict=True)) == 1}
        found = list(neighbors(here, sizes))
        assert set(found) == expected
        assert len(found) == len(expected)


@pytest.mark.parametrize("seed", range(5))
def test_local_search_climbs_to_a_local_optimum_and_begins_again(seed: int) -> None:
    """On a rugged table: every move is to a better neighbor, and it leaves a cell when none of all 24 is better."""
    definition, generator = definition_of("nas-bench-201"), stream("rugged")
    table = dict(zip(every_cell(), torch.rand(5**6, generator=generator).tolist(), strict=True))
    proposals = local_search(definition, stream(seed, "local-search"))
    start = here = cell = cast(Cell, next(proposals))
    seen = [cell]
    while _distance(here, cell) <= 1:
        here = max(here, cell, key=table.__getitem__)
        cell = cast(Cell, proposals.send(table[cell]))
        seen.append(cell)
    assert len(set(seen)) == len(seen)  # what is known is not looked up again
    around = [cell for cell in table if _distance(here, cell) == 1]
    assert len(around) == 24
    assert set(around) <= set(seen)
    assert all(table[here] > table[other] for other in around)
    assert table[here] > table[start]


def test_local_search_finds_the_only_optimum_of_a_smooth_table(truth: Truth) -> None:
    assert [convolutions(Lookups(truth, "cifar100", 150).best("local", seed)) for seed in range(5)] == [60.0] * 5


def test_local_search_ends_when_it_has_seen_everything() -> None:
    class Tiny(SpaceDefinition):
        def decisions(self) -> tuple[int, ...]:
            return (2, 3)

        def decided(self, options: Sequence[int]) -> Any:
            return tuple(options)

    proposals = local_search(Tiny(), stream(0))
    seen: list[Any] = []
    cell: Any = next(proposals)
    while len(seen) < 6:
        seen.append(cell)
        if len(seen) < 6:
            cell = proposals.send(float(sum(cell)))
    with pytest.raises(StopIteration):
        proposals.send(0.0)
    assert sorted(seen) == list(product(range(2), range(3)))


def test_the_policy_gradient_is_that_of_autograd_and_on_average_that_of_the_expected_reward() -> None:
    """Over all six pairs of options by their probability, whatever the baseline is."""
    draw = stream("policy")
    logits = [torch.randn(size, generator=draw, dtype=torch.float64, requires_grad=True) for size in (2, 3)]
    rewards = torch.rand(2, 3, generator=draw, dtype=torch.float64)
    mean = [torch.zeros_like(own) for own in logits]
    for options in product(range(2), range(3)):
        shares = [own.softmax(dim=0) for own in logits]
        chosen = torch.stack([share[option] for share, option in zip(shares, options, strict=True)])
        advantage = float(rewards[options]) - 0.37
        ours = policy_gradients(logits, options, advantage)
        theirs = torch.autograd.grad(-advantage * chosen.log().sum(), logits)
        for total, own, other in zip(mean, ours, theirs, strict=True):
            assert torch.allclose(own, other, atol=1e-14)
            total.add_(own, alpha=float(chosen.prod().detach()))
    first, second = (own.softmax(dim=0) for own in logits)
    expected = torch.autograd.grad(-(first @ rewards @ second), logits)
    assert all(torch.allclose(own, other, atol=1e-14) for own, other in zip(mean, expected, strict=True))


def test_reinforce_proposes_better_cells_with_time() -> None:
    proposals = reinforce(definition_of("nas-bench-201"), stream(1, "reinforce"))
    cell, values = next(proposals), []
    for _ in range(800):
        values.append(convolutions(cell))
        cell = proposals.send(values[-1])
    assert fmean(values[-100:]) > fmean(values[:100]) + 15


def test_untrained_learners_have_cells_of_their_own() -> None:
    config = resolve({"space": "nas-bench-201", "learners": 2, "seed": 3})
    cells = untrained(config)
    assert len(cells) == 2
    assert all(isinstance(cell, Cell) for cell in cells)
    assert cells == untrained(config)
    assert cells != untrained(resolve({"space": "nas-bench-201", "learners": 2, "seed": 4}))


def test_a_baseline_by_name(truth: Truth) -> None:
    config, lookups = resolve({"seed": 3}), Lookups(truth, "cifar100", 20)
    for kind in SEARCHES:
        assert picked(kind, config, lookups) == [lookups.best(kind, 3)]
    assert {*get_args(BaselineRow.model_fields["kind"].annotation)} == {*SEARCHES, "untrained"}


def test_without_a_table_the_study_is_refused_before_its_runs(tmp_path: Path) -> None:
    plan = tiny(columns=["percentile"], primary="percentile", over={"data_root": str(tmp_path)})
    with pytest.raises(ValueError, match="true accuracies need searches in nas-bench-201 and a table"):
        check_measurable(plan)
    check_measurable(tiny())


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_baselines_of_a_surrogate_are_rows_of_a_study_that_says_what_they_knew(tmp_path: Path) -> None:
    """On the DARTS space, where predictions are all there is; no search is carried out."""
    pytest.importorskip("onnxruntime")
    study = {
        "title": "what predictions say",
        "base": {"space": "darts"},
        "seeds": "1-2",
        "columns": ["predicted_percentile", "predicted_accuracy", "skips"],
        "primary": "predicted_percentile",
        "rows": [{"name": kind, "baseline": {"kind": kind, "lookups": 12}} for kind in (*SEARCHES, "untrained")],
    }
    plan = planned("predicted", parsed(study))
    check_measurable(plan)
    table = tabulated(plan, Store(tmp_path))
    for row in table.rows:
        assert all(len(entry.values) == 2 for entry in row.entries.values())
    percentiles = {row.name: fmean(row.entries["predicted_percentile"].values.values()) for row in table.rows}
    assert percentiles["random"] > 60  # the best of twelve
    below = footer(plan, Store(tmp_path))
    known = "in column nas-bench-301, scored by the same predictions: it knows the answer"
    assert f"local: the best of 12 lookups {known}" in below
    assert "untrained: cells of architectures before their first step" in below
    told = "predicted percentile, by nas-bench-301, beside 3,000 random cells: "
    assert [line for line in below if line.startswith(told) and "0.52" in line]


def test_predictions_need_a_space_that_has_some() -> None:
    plan = tiny(columns=["predicted_percentile"], primary="predicted_percentile")
    with pytest.raises(ValueError, match=r"^predicted accuracies need searches in darts .* is in nas-bench-201$"):
        check_measurable(plan)


def _distance(first: Cell, second: Cell) -> int:
    return sum(a != b for a, b in zip(first.operations, second.operations, strict=True))
