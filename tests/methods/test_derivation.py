"""What methods derive from 2,000 random architectures, against the rule written out slowly."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from smallgroup.methods import METHODS, Method
from smallgroup.runtime import stream
from smallgroup.spaces.darts import DartsSpace

SPACE = DartsSpace()
KIND = SPACE.kinds["normal"]
SKIP = KIND.operations.index("skip_connect")
COUNT = 2000
Rows = list[list[float]]
Nodes = list[list[tuple[str, int]]]
"""The operations and sources of each node."""


# Scores, from logits (of operations, and of edges where a method has them).


def softmax(row: list[float]) -> list[float]:
    total = sum(math.exp(a) for a in row)
    return [math.exp(a) / total for a in row]


def alone(row: list[float]) -> list[float]:
    return row


def sigmoid(row: list[float]) -> list[float]:
    return [-math.inf, *(1 / (1 + math.exp(-a)) for a in row[1:])]


def without_none(row: list[float]) -> list[float]:
    return [-math.inf, *softmax(row[1:])]


def times_edges(rows: Rows, edges: list[float]) -> Rows:
    """PC-DARTS: the share of an operation in its edge times the share of the edge in its node."""
    found = []
    for (_, to), row, edge in zip(KIND.edges, rows, edges, strict=True):
        total = sum(math.exp(other) for (_, node), other in zip(KIND.edges, edges, strict=True) if node == to)
        found.append([math.exp(edge) / total * share for share in softmax(row)])
    return found


def harmonic(rows: Rows, edges: list[float]) -> Rows:
    """BayesNAS: 1 / gamma is the sum of those of operation and edge."""
    return [
        [-math.inf, *(1 / (math.exp(-a) + math.exp(-edge)) for a in row[1:])]
        for row, edge in zip(rows, edges, strict=True)
    ]


def decided(rows: Rows, edges: list[float]) -> Rows:
    """DARTS-PT: the operation that is left, by the rank of its edge."""
    ranks = {edge: rank for rank, edge in enumerate(sorted(edges), start=1)}
    return [
        [ranks[edge] if i and row[i] == max(row[1:]) else -math.inf for i in range(8)]
        for row, edge in zip(rows, edges, strict=True)
    ]


SCORES: dict[str, Callable[[list[float]], list[float]]] = {
    "asap": without_none,  # at the temperature of the start the order is that of the logits
    "beta-darts": softmax,
    "dr-nas": without_none,
    "drop-nas": alone,
    "dsnas": softmax,
    "fair-darts": sigmoid,
    "gdas": softmax,
    "p-darts": softmax,
    "proxyless": softmax,
    "snas": softmax,
}
OF_EDGES = {"bayes-nas": harmonic, "darts-pt": decided, "pc-darts": times_edges}
LIKE_DARTS = ("darts", "darts-minus", "darts-plus", "merge-nas", "oles", "parsec", "r-darts", "sdarts-adv", "sdarts-rs")
SCORES |= dict.fromkeys(LIKE_DARTS, softmax) | {"noisy-darts": without_none}
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LIKE_DARTS[1:] else [])  # they derive by the hooks of DARTS
    for name in (*SCORES, *OF_EDGES)
]


# Rules.


def top_two(rows: Rows) -> Nodes:
    return by_node(rows, lambda edges: sorted((max(edge) for edge in edges), key=strength)[:2])


def pairs(rows: Rows) -> Nodes:
    return by_node(rows, lambda edges: sorted((pair for edge in edges for pair in edge), key=strength)[:2])


def above(rows: Rows) -> Nodes:
    return [
        [pair for pair in node if table[pair] >= 0.85] for node, table in zip(top_two(rows), by_pair(rows), strict=True)
    ]


def every_edge(rows: Rows) -> Nodes:
    nodes = by_node(rows, lambda edges: [max(edge) for edge in edges], first=0)
    return [[pair for pair in node if pair[0] != "none"] for node in nodes]


def two_skips(rows: Rows) -> Nodes:
    """P-DARTS: as long as there are more than two, the weakest skip connection is not to be had."""
    rows = [list(row) for row in rows]
    while True:
        nodes = top_two(rows)
        places = [KIND.edges.index((s, n)) for n, node in enumerate(nodes, 2) for name, s in node if "skip" in name]
        if len(places) <= 2:
            return nodes
        rows[min(places, key=lambda place: rows[place][SKIP])][SKIP] = -math.inf


Scored = tuple[float, int, int]
"""A score; the operation and the edge, negative so that of equals the first is largest."""


def strength(pair: Scored) -> float:
    return -pair[0]


def by_node(rows: Rows, kept: Callable[[list[list[Scored]]], list[Scored]], *, first: int = 1) -> Nodes:
    """What is kept of each node's edges; operations before `first` are not to be had."""
    nodes = []
    for node in range(2, 6):
        edges = [[(rows[e][i], -i, -e) for i in range(first, 8)] for e, (_, to) in enumerate(KIND.edges) if to == node]
        nodes.append([(KIND.operations[-i], KIND.edges[-e][0]) for _, i, e in kept(edges)])
    return nodes


def by_pair(rows: Rows) -> list[dict[tuple[str, int], float]]:
    """For each node the score of every operation from every source."""
    return [
        {
            (name, source): score
            for (source, to), row in zip(KIND.edges, rows, strict=True)
            for name, score in zip(KIND.operations, row, strict=True)
            if to == node
        }
        for node in range(2, 6)
    ]


RULES = {"fair-darts": above, "gdas": pairs, "p-darts": two_skips, "snas": every_edge}
SHIFTS = {"fair-darts": (3.0, 0.0), "p-darts": (1.0, 0.5)}
"""Factor of the logits, so that most nodes have an operation above the threshold; what skip connections have more."""


def test_every_built_in_method_is_derived_here() -> None:
    assert {*SCORES, *OF_EDGES} == set(METHODS.built_in)


def set_up(method: Method, alpha: Tensor, beta: Tensor) -> dict[str, Tensor]:
    """The architecture, or what stands for it in the state of a method that does not derive from it."""
    architecture = {f"alpha_{kind}": alpha for kind in SPACE.kinds}
    for kind in SPACE.kinds:
        if method.name == "bayes-nas":  # gates of ones: they are not what it looks at
            method.state |= {f"gamma_alpha_{kind}": alpha.exp(), f"gamma_beta_{kind}": beta.exp()}
            architecture |= {f"alpha_{kind}": torch.ones(14, 8), f"beta_{kind}": torch.ones(14)}
        elif method.name == "darts-pt":  # with logits that would decide in another way
            mask = torch.zeros(14, 8, dtype=torch.bool)
            mask[torch.arange(14), 1 + alpha[:, 1:].argmax(dim=1)] = True
            method.state |= {f"mask_{kind}": mask, f"strength_{kind}": (1 + beta.argsort().argsort()) / 14}
            architecture[f"alpha_{kind}"] = -alpha
        elif method.name == "pc-darts":
            architecture[f"beta_{kind}"] = beta
    return architecture


@pytest.mark.parametrize("name", CASES)
def test_derivation(name: str) -> None:
    options = {"first_temperature": 1.0} if name == "asap" else {}
    method = METHODS[name](**options)
    method.start(SPACE)
    generator, (factor, more) = stream("tables", name), SHIFTS.get(name, (1.0, 0.0))
    alphas = factor * torch.randn(COUNT, 14, 8, generator=generator).double()
    alphas[:, :, SKIP] += more
    betas = torch.randn(COUNT, 14, generator=generator).double()
    seen = other = 0
    for alpha, beta in zip(alphas, betas, strict=True):
        found = method.derive(SPACE, set_up(method, alpha, beta))
        rows, edges = alpha.tolist(), beta.tolist()
        scores = OF_EDGES[name](rows, edges) if name in OF_EDGES else [SCORES[name](row) for row in rows]
        plain, expected = top_two(scores), RULES.get(name, top_two)(scores)
        if not all(expected):
            continue  # nodes without inputs are pruned, with what follows them: tests of the space look at that
        assert [[(edge.operation, edge.source) for edge in node] for node in found.normal.nodes] == expected
        reduction = plain if name == "p-darts" else expected  # skip connections are counted in the normal cell alone
        assert [[(edge.operation, edge.source) for edge in node] for node in found.reduce.nodes] == reduction
        seen, other = seen + 1, other + (expected != plain)
    assert seen > 0.9 * COUNT
    assert other > 0.1 * COUNT or name not in RULES, "the rule of its own hardly ever mattered"
