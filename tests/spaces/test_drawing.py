"""Drawings of cells: one as it must look, and all of them read back into what was drawn."""

import random

import pytest

from smallgroup.spaces.darts import OPERATIONS, CellGenotype, DartsGenotype, Edge
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.nas_bench_201 import EDGES, Cell, every_cell

DARTS_V2 = """\
normal cell                           reduction cell

0  1                                  0  1
├──│──────────────▶ sep_conv_3x3 ┐    ├──│──────────────▶ max_pool_3x3 ┐
│  ├──────────────▶ sep_conv_3x3 ┤    │  ├──────────────▶ max_pool_3x3 ┤
│  │  2◀─────────────────────────┘    │  │  2◀─────────────────────────┘
├──│──│───────────▶ sep_conv_3x3 ┐    │  │  ├───────────▶ skip_connect ┐
│  ├──│───────────▶ sep_conv_3x3 ┤    │  ├──│───────────▶ max_pool_3x3 ┤
│  │  │  3◀──────────────────────┘    │  │  │  3◀──────────────────────┘
│  └──│──│────────▶ sep_conv_3x3 ┐    └──│──│──│────────▶ max_pool_3x3 ┐
├─────│──│────────▶ skip_connect ┤       │  ├──│────────▶ skip_connect ┤
│     │  │  4◀───────────────────┘       │  │  │  4◀───────────────────┘
└─────│──│──│─────▶ skip_connect ┐       │  ├──│──│─────▶ skip_connect ┐
      ├──│──│─────▶ dil_conv_3x3 ┤       └──│──│──│─────▶ max_pool_3x3 ┤
      │  │  │  5◀────────────────┘          │  │  │  5◀────────────────┘
      └──┴──┴──┴──▶ output                  └──┴──┴──┴──▶ output

0: the cell before the last, 1: the last one. A node sums what leads to it."""

Found = tuple[dict[int, tuple[Edge, ...]], set[int]]


def read(lines: list[str], inputs: int) -> Found:
    """The edges of every node and the nodes of the output, by following the lines as a reader does."""
    nodes: dict[int, tuple[Edge, ...]] = {}
    waiting: tuple[Edge, ...] = ()
    lanes = set(range(inputs))
    for line in lines:
        # What passes must come from a lane that has begun; what is taken must have one, too.
        assert {column // 3 for column, letter in enumerate(line.partition("▶")[0]) if letter in "│├└┴"} <= lanes
        if line.endswith("▶ output"):
            return nodes, {column // 3 for column, letter in enumerate(line) if letter in "└┴"}
        if "▶" in line:
            taken = [column for column, letter in enumerate(line.partition("▶")[0]) if letter in "├└"]
            assert len(taken) == 1
            assert line[-1] == ("┤" if waiting else "┐")
            waiting = (*waiting, Edge(line.partition("▶")[2].split()[0], taken[0] // 3))
        elif "◀" in line:
            column = line.index("◀") - 1
            assert line[column] == str(column // 3)
            assert line.endswith("─┘")
            nodes[column // 3], waiting = waiting, ()
            lanes.add(column // 3)
    raise AssertionError("no output")


def cells(drawing: str) -> tuple[list[str], list[str]]:
    lines = drawing.split("\n")
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    middle = lines[0].index("reduction cell")
    body = lines[3:-2]
    return [line[:middle].rstrip() for line in body], [line[middle:] for line in body if line[middle:]]


def check(genotype: DartsGenotype) -> None:
    for cell, lines in zip((genotype.normal, genotype.reduce), cells(draw(genotype)), strict=True):
        nodes, concat = read(lines, 2)
        assert nodes == {node: edges for node, edges in enumerate(cell.nodes, start=2) if edges}
        assert concat == set(cell.concat)


def random_cell(chance: random.Random) -> CellGenotype:
    nodes: list[tuple[Edge, ...]] = []
    count = chance.choice((4, 5))
    for node in range(2, 2 + count):
        sources = [source for source in range(node) if source < 2 or nodes[source - 2]]
        many = chance.choice((0, 1, 2, 2, 3))
        nodes.append(tuple(Edge(chance.choice(OPERATIONS[1:]), chance.choice(sources)) for _ in range(many)))
    full = [node for node, edges in enumerate(nodes, start=2) if edges]
    if not full:
        return random_cell(chance)
    return CellGenotype(tuple(nodes), tuple(chance.sample(full, chance.randint(1, len(full)))))


def test_the_look() -> None:
    assert draw(published()["DARTS_V2"]) == DARTS_V2


@pytest.mark.parametrize("name", published())
def test_published_genotypes_are_read_back(name: str) -> None:
    check(published()[name])


def test_random_genotypes_are_read_back() -> None:
    chance = random.Random(0)
    for _ in range(300):
        check(DartsGenotype(random_cell(chance), random_cell(chance)))


def test_cells_of_the_benchmark_are_read_back() -> None:
    for cell in list(every_cell())[::101]:
        lines = draw(cell).split("\n")
        assert max(map(len, lines)) <= 80
        end = len(lines) - len(cell.dead)
        nodes, concat = read(lines[3 : end - 2], 1)
        dead = [f"dead: {cell.operations[e]} from {EDGES[e][1]} to {EDGES[e][0]} cannot influence" for e in cell.dead]
        assert [line.startswith(words) for line, words in zip(lines[end:], dead, strict=True)] == [True] * len(dead)
        found = {(node, edge.source): edge.operation for node, edges in nodes.items() for edge in edges}
        assert list(found) == list(EDGES)
        assert tuple(found.values()) == cell.operations
        assert concat == {3}


def test_edges_that_carry_nothing_are_dotted() -> None:
    lines = draw(Cell(("none",) + ("skip_connect",) * 5)).split("\n")
    assert "├┄┄┄┄┄┄┄┄┄┄┄▶ none         ┐" in lines
    assert sum("┄" in line for line in lines) == 1
