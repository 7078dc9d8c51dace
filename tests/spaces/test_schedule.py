"""The best order against all topological orders of small graphs."""

import random
from itertools import permutations

import pytest

from smallgroup.spaces.schedule import Node, best_schedule, peak_of


def orders(nodes: list[Node]) -> list[tuple[int, ...]]:
    """All topological orders, by brute force."""
    return [
        order
        for order in permutations(range(len(nodes)))
        if all(order.index(source) < order.index(node) for node in range(len(nodes)) for source in nodes[node].inputs)
    ]


def independent_peak(nodes: list[Node], order: tuple[int, ...]) -> int:
    """For every operation, the results of earlier ones that it or a later one reads, outputs, and its own."""
    peaks = []
    for place, node in enumerate(order):
        later = {source for other in order[place:] for source in nodes[other].inputs}
        outputs = {one for one in order[:place] if not any(one in other.inputs for other in nodes)}
        peaks.append(sum(nodes[one].bytes for one in order[:place] if one in later | outputs) + nodes[node].bytes)
    return max(peaks)


@pytest.mark.parametrize("seed", range(60))
def test_no_order_has_a_lower_peak(seed: int) -> None:
    draw = random.Random(seed)
    nodes = [Node(draw.randint(0, 9))]
    nodes += [
        Node(draw.randint(0, 9), tuple(draw.choices(range(node), k=draw.randint(1, min(3, node)))))
        for node in range(1, draw.randint(2, 7))
    ]
    peaks = {order: independent_peak(nodes, order) for order in orders(nodes)}
    found = best_schedule(nodes)
    assert found.exact
    assert found.order in peaks
    assert found.peak == peaks[found.order] == min(peaks.values())
    assert all(peak_of(nodes, order) == peak for order, peak in peaks.items())


def test_the_order_matters() -> None:
    """Two branches with large results in between: one after the other, not side by side."""
    nodes = [Node(1), Node(9, (0,)), Node(9, (0,)), Node(1, (1,)), Node(1, (2,)), Node(1, (3, 4))]
    assert max(peak_of(nodes, order) for order in orders(nodes)) == 19
    assert best_schedule(nodes).peak == 11


def test_where_the_search_gives_up_it_says_so() -> None:
    draw = random.Random(3)
    nodes = [Node(5)] + [Node(draw.randint(1, 9), (0,)) for _ in range(12)]
    nodes += [Node(draw.randint(1, 9), (node,)) for node in range(1, 13)]
    nodes.append(Node(1, tuple(range(13, 25))))
    found = best_schedule(nodes, most_states=5)
    assert not found.exact
    assert found.peak == peak_of(nodes, found.order) >= best_schedule(nodes).peak
    assert sorted(found.order) == list(range(len(nodes)))
