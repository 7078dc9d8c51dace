"""A pair of cells as a list of independent decisions, for baselines that search them one by one.

For each node of the normal cell and then of the reduction cell: which two nodes it takes, and an operation for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, DartsGenotype, Edge
from smallgroup.spaces.kinds import Kind

CELLS = ("normal", "reduce")


def sizes(kinds: Mapping[str, Kind]) -> tuple[int, ...]:
    """Return how many options each decision has."""
    found: list[int] = []
    for kind in (kinds[name] for name in CELLS):
        for node in _nodes(kind):
            found += [len(_pairs(node)), len(_offered(kind, 0, node)), len(_offered(kind, 1, node))]
    return tuple(found)


def decided(kinds: Mapping[str, Kind], options: Sequence[int], genotype: type[DartsGenotype]) -> DartsGenotype:
    """Return the genotype that one option of each decision makes."""
    left = iter(options)
    return genotype(*(_cell(kinds[name], left) for name in CELLS))


def options_of(kinds: Mapping[str, Kind], genotype: DartsGenotype) -> tuple[int, ...] | None:
    """Return the options that make a genotype; None if a node has not two edges from different nodes."""
    found: list[int] = []
    for name, cell in zip(CELLS, (genotype.normal, genotype.reduce), strict=True):
        for node, edges in enumerate(cell.nodes, start=INPUTS):
            ordered = sorted(edges, key=lambda edge: edge.source)
            sources = tuple(edge.source for edge in ordered)
            if sources not in _pairs(node):
                return None
            found.append(_pairs(node).index((sources[0], sources[1])))
            found += [_offered(kinds[name], source, node).index(operation) for operation, source in ordered]
    return tuple(found)


def _cell(kind: Kind, options: Iterator[int]) -> CellGenotype:
    nodes = []
    for node in _nodes(kind):
        pair = _pairs(node)[next(options)]
        nodes.append(tuple(Edge(_offered(kind, source, node)[next(options)], source) for source in pair))
    return CellGenotype(tuple(nodes), tuple(_nodes(kind)))


def _nodes(kind: Kind) -> list[int]:
    return sorted({node for _, node in kind.edges})


def _pairs(node: int) -> list[tuple[int, int]]:
    return list(combinations(range(node), 2))


def _offered(kind: Kind, source: int, node: int) -> list[str]:
    """Return the operations on offer; all edges of a kind offer the same number."""
    return [name for name in kind.offered(kind.edges.index((source, node))) if name != "none"]
