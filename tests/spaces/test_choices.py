"""Genotypes beside the derived one."""

import math

import pytest
import torch

from smallgroup.runtime import stream
from smallgroup.spaces import SPACES, definition_of
from smallgroup.spaces.choices import neighbors, random_genotype, score
from smallgroup.spaces.darts.genotype import DartsGenotype
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.nas_bench_201 import OPERATIONS, Cell, NasBench201Space


@pytest.mark.parametrize("space", list(SPACES))
def test_random_cells_are_a_function_of_the_generator_and_differ(space: str) -> None:
    cells = [random_genotype(space, stream(seed, "random")) for seed in (0, 0, 1, 2, 3)]
    assert cells[0] == cells[1]
    assert len(set(map(str, cells))) == 4


def test_random_cells_use_every_operation_but_none() -> None:
    generator, used = stream(0, "many"), set()
    for _ in range(300):
        cell = random_genotype("nas-bench-201", generator)
        assert isinstance(cell, Cell)
        used |= set(cell.operations)
    assert used == set(OPERATIONS) - {"none"}


def scores(space: str, seed: int = 0) -> dict[str, torch.Tensor]:
    kinds = SPACES[space].kinds
    return {name: torch.rand(kind.shape, generator=stream(seed)).softmax(dim=1) for name, kind in kinds.items()}


@pytest.mark.parametrize("space", list(SPACES))
def test_neighbors_differ_in_one_operation_and_score_less(space: str) -> None:
    tables = scores(space)
    made = definition_of(space).at_any_size()
    derived = made.derive(tables, Rule("top2"))
    found = list(neighbors(derived, tables))
    assert found
    before = made.chosen(derived)
    assert len(found) == 16 if space == "darts" else len(found) <= sum(int(table.sum()) for table in before.values())
    for other in found:
        after = made.chosen(other)
        moved = [(kind, *place) for kind in before for place in (before[kind] != after[kind]).nonzero().tolist()]
        assert len({(kind, edge) for kind, edge, _ in moved}) == 1
        assert score(other, tables) <= score(derived, tables)
        (kind, edge), row = moved[0][:2], tables[moved[0][0]][moved[0][1]]
        new, old = int(after[kind][edge].argmax()), int(before[kind][edge].argmax())
        operations = made.kinds[kind].operations
        between = [
            name
            for name, value in zip(operations, row.tolist(), strict=True)
            if float(row[new]) < value < float(row[old]) and name != "none" and name in made.kinds[kind].offered(edge)
        ]
        assert between == []  # it is the next best, nothing lies in between
        assert operations[new] != "none"


def test_what_was_removed_is_not_taken() -> None:
    tables = scores("nas-bench-201")
    derived = NasBench201Space().derive(tables, Rule("top2"))
    for row, operation in zip(tables["cell"], derived.operations, strict=True):
        row[[name != operation for name in SPACES["nas-bench-201"].kinds["cell"].operations]] = -math.inf
    assert list(neighbors(derived, tables)) == []


def test_the_score_is_the_sum_of_log_shares() -> None:
    tables = {"cell": torch.tensor([[0.5, 0.25, 0.25, 0.0, 0.0]] * 6)}
    cell = Cell(("skip_connect",) * 6)
    assert score(cell, tables) == pytest.approx(6 * math.log(0.25))
    assert isinstance(random_genotype("darts", stream(0)), DartsGenotype)
