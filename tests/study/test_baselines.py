"""Rows without a search: what they may look at, and that they do not know the answer."""

from pathlib import Path
from typing import ClassVar

import pytest

from smallgroup.config import resolve
from smallgroup.spaces import Genotype
from smallgroup.spaces.nas_bench_201 import Truth
from smallgroup.spaces.nas_bench_201.cell import Cell, every_cell
from smallgroup.study.baselines import POPULATION, Lookups, evolution, picked, random_search, untrained
from smallgroup.study.table import check_measurable
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


@pytest.mark.parametrize("search", [random_search, evolution])
def test_as_many_lookups_as_allowed_and_in_one_column(search: object, truth: Truth) -> None:
    assert callable(search)
    seen = Truth.__new__(Truth)
    seen.columns = {name: Counted(column) for name, column in truth.columns.items()}
    search(Lookups(seen, "cifar100", 37), 1)
    assert {name: column.looks for name, column in seen.columns.items() if isinstance(column, Counted)} == {
        "cifar10": 0,
        "cifar100": 37,
    }


def test_random_search_gives_the_best_it_saw(truth: Truth) -> None:
    one, many = (random_search(Lookups(truth, "cifar100", n), 3) for n in (1, 200))
    assert convolutions(many) >= 45 > convolutions(one)
    assert random_search(Lookups(truth, "cifar100", 200), 3) == many
    assert len({random_search(Lookups(truth, "cifar100", 5), seed) for seed in range(5)}) > 1


def test_evolution_climbs_where_random_search_does_not(truth: Truth) -> None:
    seeds = range(8)
    evolved = [convolutions(evolution(Lookups(truth, "cifar100", 150), seed)) for seed in seeds]
    drawn = [convolutions(random_search(Lookups(truth, "cifar100", 150), seed)) for seed in seeds]
    assert sum(evolved) > sum(drawn)
    assert max(evolved) == 60.0


def test_in_evolution_the_oldest_dies(truth: Truth) -> None:
    """In a column that grows worse with every look, who kept the best would breed from the first ones for ever."""

    class Worsening(dict[Cell, float]):
        seen: ClassVar[list[Cell]] = []

        def __getitem__(self, cell: Cell) -> float:
            self.seen.append(cell)
            return -float(len(self.seen))

    falling = Truth.__new__(Truth)
    falling.columns = {"cifar100": Worsening(truth.columns["cifar100"])}
    assert evolution(Lookups(falling, "cifar100", 200), 1) == Worsening.seen[0]
    for number, child in enumerate(Worsening.seen[POPULATION:], start=POPULATION):
        alive = Worsening.seen[number - POPULATION : number]
        changes = [sum(a != b for a, b in zip(child.operations, cell.operations, strict=True)) for cell in alive]
        assert min(changes) <= 1  # 0: a sibling


def test_untrained_learners_have_cells_of_their_own() -> None:
    config = resolve({"space": "nas-bench-201", "learners": 2, "seed": 3})
    cells = untrained(config)
    assert len(cells) == 2
    assert all(isinstance(cell, Cell) for cell in cells)
    assert cells == untrained(config)
    assert cells != untrained(resolve({"space": "nas-bench-201", "learners": 2, "seed": 4}))


def test_a_baseline_by_name(truth: Truth) -> None:
    config, lookups = resolve({"seed": 3}), Lookups(truth, "cifar100", 20)
    assert picked("random", config, lookups) == [random_search(lookups, 3)]
    assert picked("evolution", config, lookups) == [evolution(lookups, 3)]


def test_without_a_table_the_study_is_refused_before_its_runs(tmp_path: Path) -> None:
    plan = tiny(columns=["percentile"], primary="percentile", over={"data_root": str(tmp_path)})
    with pytest.raises(ValueError, match="true accuracies need searches in nas-bench-201 and a table"):
        check_measurable(plan)
    check_measurable(tiny())
