"""Cells as drawings: every node is a lane from top to bottom, every operation a labeled way from one lane to a node.

No two labels can meet, whichever edges a cell has: each operation has a row of its own, and a row stays where it is
while the cell changes from epoch to epoch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smallgroup.report import palette
from smallgroup.report.shapes import Box, Disc, Drawing, Group, Label, Polyline, Shape
from smallgroup.spaces import definition_of
from smallgroup.spaces.genotype import Genotype

LEFT, LANE, ROW, NODE, TOP = 14.0, 22.0, 28.0, 24.0, 30.0
PILL = 146.0
GAUGE = PILL - 20
"""The length of a share of 1."""
StrengthTable = Sequence[Sequence[float | None]]
"""[edges, operations]: scores, None for what has been removed."""


@dataclass(frozen=True)
class Way:
    """An operation on the way from a source to a node."""

    source: int
    operation: str
    edge: int
    """The row of the table of scores."""
    shares: tuple[tuple[str, float], ...] = ()
    """What the search held of each operation there, the highest first; as shares of the edge."""

    @property
    def share(self) -> float | None:
        """Return the share of the operation drawn; None: it is not known."""
        return dict(self.shares).get(self.operation)

    def words(self, node: int) -> str:
        """Return the edge in words, for screen readers and tooltips."""
        told = f"{self.operation} from node {self.source} to node {node}"
        if not self.shares:
            return told
        others = ", ".join(f"{name} {share:.3f}" for name, share in self.shares if name != self.operation)
        return f"{told}, share {self.share or 0:.3f}; alternatives: {others}"


@dataclass(frozen=True)
class DrawnCell:
    """One kind of cell of a genotype."""

    kind: str
    title: str
    inputs: tuple[str, ...]
    nodes: tuple[tuple[Way, ...], ...]
    """The ways into each node after the inputs."""
    output: tuple[int, ...]
    """The nodes that are the output."""


def drawn(genotype: Genotype, scores: Mapping[str, StrengthTable] | None = None) -> dict[str, DrawnCell]:
    """Return the drawable cells of a genotype, by kind."""
    definition = definition_of(genotype.space)
    kinds = definition.kinds

    def way(kind: str, source: int, node: int, operation: str) -> Way:
        edge = kinds[kind].edges.index((source, node)) if (source, node) in kinds[kind].edges else -1
        table = (scores or {}).get(kind)
        fits = table is not None and 0 <= edge < len(table)
        shares = shares_of(kinds[kind].operations, table[edge]) if table is not None and fits else ()
        return Way(source, operation, edge, shares)

    result = {}
    for kind, graph in definition.graphs(genotype).items():
        ways = tuple(
            tuple(way(kind, edge.source, node, edge.operation) for edge in edges)
            for node, edges in enumerate(graph.nodes, start=len(graph.inputs))
        )
        result[kind] = DrawnCell(kind, graph.title, graph.inputs, ways, graph.output)
    return result


def shares_of(operations: Sequence[str], row: Sequence[float | None]) -> tuple[tuple[str, float], ...]:
    """Return scores of an edge as shares, the highest first, without removed operations."""
    known = [(name, max(0.0, value)) for name, value in zip(operations, row, strict=False) if value is not None]
    total = sum(value for _, value in known)
    if total <= 0:
        return ()
    return tuple(sorted(((name, round(value / total, 4)) for name, value in known), key=lambda one: -one[1]))


def slots_of(cells: Sequence[DrawnCell]) -> tuple[int, ...]:
    """Return the rows that each node needs, so that each of some cells fits."""
    most = max(len(cell.nodes) for cell in cells)
    return tuple(max(len(cell.nodes[i]) if i < len(cell.nodes) else 0 for cell in cells) for i in range(most))


def decidedness(share: float, operations: int) -> float:
    """Return how far a share is from the uniform level, 0, to certainty, 1."""
    uniform = 1 / max(1, operations)
    return max(0.0, (share - uniform) / (1 - uniform)) if operations > 1 else 1.0


def width_of(way: "Way | None") -> float:
    """Return how thick a way is: the thicker, the more decided its edge is."""
    if way is None or way.share is None:
        return 2.0
    return 1.0 + 7.0 * decidedness(way.share, len(way.shares))


def draw_cell(cell: DrawnCell, whose: str, slots: Sequence[int] | None = None, frame: str = "") -> Drawing:
    """Draw a cell; `frame` names the data by which a script shows its other epochs."""
    slots = slots_of([cell]) if slots is None else slots
    first = len(cell.inputs)
    lanes = first + len(slots)
    pill = LEFT + LANE * lanes
    bus = pill + PILL + 12
    places = _places(slots, first)
    bottom = TOP + ROW * sum(slots) + NODE * len(slots) + 8
    ends = _ends(cell, places.rows, bottom)
    shapes: list[Shape] = [*_lanes(lanes, first, places, ends)]
    for number, row, y in places.rows:
        ways = cell.nodes[number - first] if number - first < len(cell.nodes) else ()
        shapes.append(_way(ways[row] if row < len(ways) else None, number, y, (pill, bus), scripted=bool(frame)))
    for number in range(first, lanes):
        rows = [y for node, _, y in places.rows if node == number]
        y = places.nodes[number]
        if rows:
            shapes.append(
                Polyline([(bus, rows[0]), (bus, y), (LEFT + LANE * number + 9, y)], "muted", 1.5, name="back")
            )
        shapes += [
            Disc(LEFT + LANE * number, y, 9, fill="card", stroke="ink"),
            Label(LEFT + LANE * number, y + 4, str(number), anchor="middle", bold=True),
        ]
    out = [LEFT + LANE * node for node in cell.output]
    shapes.append(Polyline([(min(out), bottom), (pill, bottom)], "muted", 2))
    shapes += [Disc(x, bottom, 3, fill="muted") for x in out]
    shapes.append(Label(pill + 6, bottom + 4, "output", bold=True))
    for number in range(first):
        shapes.append(Disc(LEFT + LANE * number, TOP - 16, 9, fill="card", stroke="ink"))
        shapes.append(Label(LEFT + LANE * number, TOP - 12, str(number), anchor="middle", bold=True))
    names = ", ".join(f"{number}: {name}" for number, name in enumerate(cell.inputs))
    shapes.append(Label(LEFT + LANE * first + 2, TOP - 12, names, "muted"))
    title = f"{cell.title} of {whose}"
    data = (
        {"frame": frame, "left": LEFT, "lane": LANE, "pill": pill, "gauge": PILL - 20, "bottom": bottom}
        if frame
        else {}
    )
    return Drawing(bus + 10, bottom + 14, shapes, title, described(cell), data, "cell")


def described(cell: DrawnCell) -> str:
    """Return the cell in words, for readers that cannot see the drawing."""
    parts = []
    for node, ways in enumerate(cell.nodes, start=len(cell.inputs)):
        if ways:
            parts.append(f"node {node}: " + " and ".join(f"{way.operation} of {way.source}" for way in ways))
    return "; ".join(parts) + f"; output: {', '.join(map(str, cell.output))}"


@dataclass(frozen=True)
class _Places:
    rows: list[tuple[int, int, float]]
    """For each row of the drawing: the node, the number of the row in its lane, and y."""
    nodes: dict[int, float]


def _places(slots: Sequence[int], first: int) -> _Places:
    rows, nodes, y = [], {}, TOP
    for place, count in enumerate(slots):
        for row in range(count):
            rows.append((first + place, row, y + ROW / 2))
            y += ROW
        nodes[first + place] = y + NODE / 2
        y += NODE
    return _Places(rows, nodes)


def _ends(cell: DrawnCell, rows: Sequence[tuple[int, int, float]], bottom: float) -> dict[int, float]:
    """Return where each lane is used for the last time."""
    ends = {}
    for node, row, y in rows:
        ways = cell.nodes[node - len(cell.inputs)] if node - len(cell.inputs) < len(cell.nodes) else ()
        if row < len(ways):
            ends[ways[row].source] = y
    return ends | dict.fromkeys(cell.output, bottom)


def _lanes(lanes: int, first: int, places: _Places, ends: Mapping[int, float]) -> list[Shape]:
    shapes: list[Shape] = []
    for lane in range(lanes):
        start = TOP - 7 if lane < first else places.nodes[lane] + 9
        x, end = LEFT + LANE * lane, max(start, ends.get(lane, start))
        line = Polyline([(x, start), (x, end)], "muted", 2, name="lane-line")
        shapes.append(Group([line], name="lane", data={"lane": lane, "start": start}))
    return shapes


def _way(way: Way | None, node: int, y: float, between: tuple[float, float], *, scripted: bool) -> Group:
    """Draw one row. An empty row is drawn too, and hidden, for the epochs in which it is used."""
    pill, bus = between
    name = way.operation if way else "none"
    color, share = palette.operation(name), way.share if way else None
    x = LEFT + LANE * (way.source if way else 0)
    quiet, width = name == "none", width_of(way)
    shapes: list[Shape] = [
        Polyline([(x, y), (pill, y)], "paper", width + 3, name="halo"),
        # A rim: yellow on white paper would hardly be seen without.
        Polyline([(x, y), (pill, y)], "muted", 0.0 if quiet else width + 1.2, name="rim"),
        Polyline([(x, y), (pill, y)], color, width, "4 3" if quiet else "", name="ride"),
        Polyline([(pill + PILL, y), (bus, y)], color, width, "4 3" if quiet else "", name="tail"),
        Disc(x, y, 4, fill=color, stroke="muted", name="stop"),
        Box(pill, y - 10, PILL, 20, fill=color, corner=10, name="pill"),
        Label(pill + 10, y + 4, name, palette.on(color), name="operation"),
        Label(pill + PILL - 10, y + 4, "" if share is None else f"{share:.2f}", palette.on(color), "end", name="share"),
    ]
    if scripted or share is not None:
        shapes += _gauge(pill + 10, y + 12.5, share, len(way.shares) if way else 0)
    title = way.words(node) if way else "no operation"
    return Group(shapes, title, "edge" if way else "edge empty", {"node": node, "y": y}, focus=True)


def _gauge(x: float, y: float, share: float | None, operations: int) -> list[Shape]:
    """Draw a share as a bar, with a tick at the uniform level; empty for epochs in which it is not known."""
    level = x + GAUGE / max(1, operations)
    known = share is not None
    return [
        Polyline([(x, y), (x + GAUGE, y)], "grid", 2.0, name="scale"),
        Polyline([(x, y), (x + GAUGE * (share or 0.0), y)] if known else [], "ink", 2.0, name="gauge"),
        Polyline([(level, y - 2.5), (level, y + 2.5)] if known else [], "ink", 1.5, name="uniform"),
    ]
