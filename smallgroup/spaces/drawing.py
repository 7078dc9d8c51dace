"""Cells drawn as text: every node is a lane from top to bottom, every operation a way from one lane to a later one."""

from collections.abc import Sequence
from itertools import zip_longest

from smallgroup.spaces import definition_of
from smallgroup.spaces.genotype import CellGraph, Edge, Genotype

_LANE = 3
"""Columns of text per lane of a drawing."""
_GAP = "    "


def draw(genotype: Genotype) -> str:
    """Return the kinds of cells side by side as text, with notes; built-in spaces fit into 80 columns."""
    definition = definition_of(genotype.space)
    own = definition.drawn(genotype)
    if own is not None:
        return "\n".join([*own, "", *definition.notes(genotype)])
    lines = [""]
    for number, graph in enumerate(definition.graphs(genotype).values()):
        width = max(map(len, lines)) if number else 0
        gap = _GAP if number else ""
        drawn = _draw_cell(graph)
        lines = [f"{one:{width}}{gap}{other}".rstrip() for one, other in zip_longest(lines, drawn, fillvalue="")]
    return "\n".join([*lines, "", *definition.notes(genotype)])


def one_line(genotype: Genotype) -> str:
    """Return a cell on one line: node by node, each operation with its source."""
    return definition_of(genotype.space).in_a_line(genotype)


def _draw_cell(graph: CellGraph) -> list[str]:
    nodes = dict(enumerate(graph.nodes, start=len(graph.inputs)))
    return [graph.title, "", *_rows(len(graph.inputs), nodes, graph.output)]


def _rows(inputs: int, nodes: dict[int, tuple[Edge, ...]], concat: Sequence[int]) -> list[str]:
    """Draw one row per edge, one per node for the way back to its own lane, and one for the output."""
    steps: list[tuple[int, Edge | None]] = []
    for node, edges in nodes.items():
        steps += [(node, edge) for edge in edges]
        steps += [(node, None)] if edges else []
    starts = {**dict.fromkeys(range(inputs), -1), **{node: row for row, (node, edge) in enumerate(steps) if not edge}}
    ends = {edge.source: row for row, (_, edge) in enumerate(steps) if edge} | dict.fromkeys(concat, len(steps))
    lanes, longest = inputs + len(nodes), max(len(edge.operation) for _, edge in steps if edge)

    def lines(row: int) -> list[str]:
        """Return the lanes that pass this row."""
        columns = [" "] * (_LANE * lanes)
        for lane, start in starts.items():
            if start < row <= ends.get(lane, -1):
                columns[_LANE * lane] = "│"
        return columns

    def way(row: int, columns: list[str], lane: int, stroke: str) -> None:
        """Draw the way from a lane to the right; the lane ends here if nothing uses it again."""
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
