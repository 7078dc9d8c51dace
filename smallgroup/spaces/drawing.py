"""Cells drawn as text: every node is a lane from top to bottom, every operation a way from one lane to a later one."""

from collections.abc import Sequence
from itertools import zip_longest

from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, Edge
from smallgroup.spaces.genotypes import AnyGenotype
from smallgroup.spaces.nas_bench_201.cell import EDGES, Cell

_LANE = 3
"""Columns per lane."""
_GAP = "    "


def draw(genotype: AnyGenotype) -> str:
    """The cell, or the normal and the reduction cell side by side; no line is longer than 80 columns."""
    if isinstance(genotype, Cell):
        notes = ["0: the input. A node sums what leads to it.", *_dead_words(genotype)]
        return "\n".join([*_draw_benchmark(genotype), "", *notes])
    left, right = _draw_cell("normal cell", genotype.normal), _draw_cell("reduction cell", genotype.reduce)
    width = max(map(len, left))
    both = [f"{one:{width}}{_GAP}{other}".rstrip() for one, other in zip_longest(left, right, fillvalue="")]
    legend = "0: the cell before the last, 1: the last one. A node sums what leads to it."
    return "\n".join([*both, "", legend])


def _dead_words(cell: Cell) -> list[str]:
    """Return a line on each operation that is in the notation and has no effect."""
    found = [(EDGES[edge], cell.operations[edge]) for edge in cell.dead]
    return [f"dead: {name} from {source} to {node} cannot influence the output" for (node, source), name in found]


def one_line(genotype: AnyGenotype) -> str:
    """The same in a line: node by node, each operation with where it comes from."""
    if isinstance(genotype, Cell):
        return str(genotype)
    return "; ".join(
        f"{name} {_nodes(cell)}" for name, cell in (("normal", genotype.normal), ("reduce", genotype.reduce))
    )


def _nodes(cell: CellGenotype) -> str:
    return " | ".join(" ".join(f"{edge.operation}({edge.source})" for edge in edges) for edges in cell.nodes)


def _draw_cell(title: str, cell: CellGenotype) -> list[str]:
    nodes = dict(enumerate(cell.nodes, start=INPUTS))
    return [title, "", *_rows(INPUTS, nodes, cell.concat)]


def _draw_benchmark(cell: Cell) -> list[str]:
    nodes: dict[int, tuple[Edge, ...]] = {1: (), 2: (), 3: ()}
    for (node, source), operation in zip(EDGES, cell.operations, strict=True):
        nodes[node] = (*nodes[node], Edge(operation, source))
    return ["cell", "", *_rows(1, nodes, (3,))]


def _rows(inputs: int, nodes: dict[int, tuple[Edge, ...]], concat: Sequence[int]) -> list[str]:
    """One row per edge, one per node for the way back to its own lane, one for the output."""
    steps: list[tuple[int, Edge | None]] = []
    for node, edges in nodes.items():
        steps += [(node, edge) for edge in edges]
        steps += [(node, None)] if edges else []
    starts = {**dict.fromkeys(range(inputs), -1), **{node: row for row, (node, edge) in enumerate(steps) if not edge}}
    ends = {edge.source: row for row, (_, edge) in enumerate(steps) if edge} | dict.fromkeys(concat, len(steps))
    lanes, longest = inputs + len(nodes), max(len(edge.operation) for _, edge in steps if edge)

    def lines(row: int) -> list[str]:
        """The lanes that pass this row."""
        columns = [" "] * (_LANE * lanes)
        for lane, start in starts.items():
            if start < row <= ends.get(lane, -1):
                columns[_LANE * lane] = "│"
        return columns

    def way(row: int, columns: list[str], lane: int, stroke: str) -> None:
        """From a lane to the right; the lane ends here if nothing takes it again."""
        for column in range(_LANE * lane + 1, len(columns)):
            columns[column] = stroke if columns[column] == " " else columns[column]
        columns[_LANE * lane] = "└" if ends[lane] == row else "├"

    drawn = ["".join(f"{lane:<{_LANE}}" for lane in range(inputs)).rstrip()]
    for row, (node, edge) in enumerate(steps):
        columns = lines(row)
        if edge:
            way(row, columns, edge.source, "┄" if edge.operation == "none" else "─")
            opening = row == 0 or steps[row - 1][0] != node
            drawn.append(f"{''.join(columns)}▶ {edge.operation:{longest}} {'┐' if opening else '┤'}")
        else:
            back = _LANE * lanes + longest + 3 - (_LANE * node + 2)
            drawn.append(f"{''.join(columns[: _LANE * node])}{node}◀" + "─" * back + "┘")
    columns = lines(len(steps))
    first = _LANE * min(concat)
    for column in range(first, len(columns)):
        columns[column] = "─" if columns[column] == " " else "└" if column == first else "┴"
    return [*drawn, f"{''.join(columns)}▶ output"]
