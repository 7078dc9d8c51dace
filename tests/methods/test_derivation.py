"""What methods derive from 2,000 random architectures, against the rule written out slowly."""

import math
from collections.abc import Callable

import pytest
import torch

from smallgroup.methods import METHODS
from smallgroup.runtime import stream
from smallgroup.spaces.darts import DartsSpace

SPACE = DartsSpace()
KIND = SPACE.kinds["normal"]
COUNT = 2000


def softmax(row: list[float]) -> list[float]:
    total = sum(math.exp(a) for a in row)
    return [math.exp(a) / total for a in row]


def alone(row: list[float]) -> list[float]:
    return row


def without_none(row: list[float]) -> list[float]:
    return [-math.inf, *softmax(row[1:])]


SCORES: dict[str, Callable[[list[float]], list[float]]] = {
    "asap": without_none,  # at the temperature of the start the order is that of the logits
    "beta-darts": softmax,
    "dr-nas": without_none,
    "drop-nas": alone,
    "dsnas": softmax,
    "proxyless": softmax,
    "snas": softmax,
}
LIKE_DARTS = ("darts", "darts-plus", "merge-nas", "oles", "parsec", "r-darts", "sdarts-adv", "sdarts-rs")
SCORES |= dict.fromkeys(LIKE_DARTS, softmax) | {"noisy-darts": without_none}
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LIKE_DARTS[1:] else [])  # they derive by the hooks of DARTS
    for name in SCORES
]


def slow(rows: list[list[float]], *, every_edge: bool) -> list[list[tuple[str, int]]]:
    """The operations and sources of each node."""
    nodes = []
    for node in range(2, 6):
        found = []
        for (source, to), row in zip(KIND.edges, rows, strict=True):
            if to == node:
                first = 0 if every_edge else 1
                best = max(range(first, 8), key=lambda i: (row[i], -i))
                found.append((row[best], KIND.operations[best], source))
        kept = found if every_edge else sorted(found, key=lambda one: -one[0])[:2]
        nodes.append([(name, source) for _, name, source in kept if name != "none"])
    return nodes


@pytest.mark.parametrize("name", CASES)
def test_derivation(name: str) -> None:
    options = {"first_temperature": 1.0} if name == "asap" else {}
    method = METHODS[name](**options)
    method.start(SPACE)
    generator = stream("tables", name)
    alphas = torch.randn(COUNT, 14, 8, generator=generator).double()
    seen = 0
    for alpha in alphas:
        found = method.derive(SPACE, {"alpha_normal": alpha, "alpha_reduce": alpha}).normal
        expected = slow([SCORES[name](row) for row in alpha.tolist()], every_edge=name == "snas")
        if name == "snas" and not all(expected):
            continue  # nodes without inputs are pruned, with what follows them: tests of the space look at that
        assert [[(edge.operation, edge.source) for edge in node] for node in found.nodes] == expected
        seen += 1
    assert seen > 0.9 * COUNT
