"""From scores to a pair of cells: the derivation rules of the DARTS space."""

from collections.abc import Sequence

from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, Edge
from smallgroup.spaces.kinds import Kind, Rule

NOISE = "noise"
Pair = tuple[float, Edge]
"""A score and what it is the score of."""


def derive_cell(kind: Kind, scores: Sequence[Sequence[float]], rule: Rule) -> CellGenotype:
    """Derive a cell from the scores by the rule. Of equal scores the first one wins."""
    incoming: dict[int, list[list[Pair]]] = {}
    for (source, node), row in zip(kind.edges, scores, strict=True):
        pairs = [(score, Edge(name, source)) for name, score in zip(kind.operations, row, strict=True)]
        incoming.setdefault(node, []).append(sorted(pairs, key=_strength))
    nodes = [_keep(edges, rule) for edges in incoming.values()]
    connected = _connected(nodes)
    if not any(connected):
        # Nothing gets anywhere: the strongest edge from an input of the cell is all that is left of it.
        node, edge = _strongest_from_inputs(kind, scores)
        connected[node - INPUTS] = (edge,)
    connected = _reading(connected, kind, scores)
    return CellGenotype(tuple(connected), tuple(INPUTS + i for i, kept in enumerate(connected) if kept))


def _reading(nodes: list[tuple[Edge, ...]], kind: Kind, scores: Sequence[Sequence[float]]) -> list[tuple[Edge, ...]]:
    """Return a cell with a real operation on an edge from the last cell if it would have only noise there.

    Noise is the same whatever it is given: without that edge, the cells before would be dead. If the cell has no edge
    from the last one, that holds for the one before.
    """
    every = [(i, j, edge) for i, edges in enumerate(nodes) for j, edge in enumerate(edges)]
    places = [place for place in every if place[2].source == INPUTS - 1] or [
        place for place in every if place[2].source < INPUTS
    ]
    if any(edge.operation != NOISE for _, _, edge in places):
        return nodes
    found = []
    for i, j, edge in places:
        row = scores[kind.edges.index((edge.source, i + INPUTS))]
        pairs = [(score, Edge(name, edge.source)) for name, score in zip(kind.operations, row, strict=True)]
        found += [(pair, i, j) for pair in pairs if _may_be_chosen(pair) and pair[1].operation != NOISE]
    if not found:  # a method has removed all but noise
        return nodes
    (_, other), i, j = min(found, key=lambda one: _strength(one[0]))
    return [*nodes[:i], (*nodes[i][:j], other, *nodes[i][j + 1 :]), *nodes[i + 1 :]]


def _keep(edges: list[list[Pair]], rule: Rule) -> list[Edge]:
    """Return the incoming edges a node keeps, strongest first; `edges` has a sorted list of pairs per edge."""
    if rule.name == "every-edge":
        return [pairs[0][1] for pairs in edges if pairs[0][1].operation != "none"]
    real = [[pair for pair in pairs if _may_be_chosen(pair)] for pairs in edges]
    candidates = [pair for pairs in real for pair in (pairs if rule.name == "pairs" else pairs[:1])]
    kept = sorted(candidates, key=_strength)[:2]
    return [edge for score, edge in kept if rule.name != "threshold" or score >= rule.threshold]


def _connected(nodes: list[list[Edge]]) -> list[tuple[Edge, ...]]:
    """Return the edges without those from nodes that nothing reaches."""
    result: list[tuple[Edge, ...]] = []
    for edges in nodes:
        alive = {0, 1} | {INPUTS + i for i, kept in enumerate(result) if kept}
        result.append(tuple(edge for edge in edges if edge.source in alive))
    return result


def _strongest_from_inputs(kind: Kind, scores: Sequence[Sequence[float]]) -> tuple[int, Edge]:
    """Return the strongest edge from an input, after the node that it leads to; of equals the first."""
    pairs = [
        (node, (score, Edge(name, source)))
        for (source, node), row in zip(kind.edges, scores, strict=True)
        for name, score in zip(kind.operations, row, strict=True)
        if source < INPUTS
    ]
    real = [(node, pair) for node, pair in pairs if _may_be_chosen(pair)]
    if not real:
        raise ValueError(f"a {kind.name} cell must have an operation behind its inputs, but all have been removed")
    node, (_, edge) = min(real, key=lambda found: _strength(found[1]))
    return node, edge


def _may_be_chosen(pair: Pair) -> bool:
    return pair[1].operation != "none" and pair[0] != float("-inf")


def _strength(pair: Pair) -> float:
    """Return a key that sorts the strongest first; sorting is stable, so ties keep their order."""
    return -pair[0]
