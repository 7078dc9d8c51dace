"""In which order the operations of a graph run with the least memory: exact, for graphs of small cells."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

MOST_STATES = 20_000
"""Sets of operations that are looked at before the search settles for the best order it has found."""


@dataclass(frozen=True)
class Node:
    """An operation: the bytes of its result, and the operations whose results it reads."""

    bytes: int
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class MemoryPlan:
    """An order of all operations, and the most bytes that are live at once while they run."""

    peak: int
    order: tuple[int, ...]
    exact: bool
    """Whether no order has a lower peak; else it is the lowest that was found."""


def peak_of(nodes: Sequence[Node], order: Sequence[int]) -> int:
    """Return the most bytes that are live at once: while an operation runs, its result and all results still needed.

    A result is needed until its last reader has run; one that nobody reads is an output, and stays.
    """
    readers = [sum(node in set(other.inputs) for other in nodes) for node in range(len(nodes))]
    live = peak = 0
    for node in order:
        live += nodes[node].bytes
        peak = max(peak, live)
        for source in set(nodes[node].inputs):
            readers[source] -= 1
            live -= nodes[source].bytes if not readers[source] else 0
    return peak


def best_schedule(nodes: Sequence[Node], most_states: int = MOST_STATES) -> MemoryPlan:
    """Find an order with the lowest peak; nodes are given such that inputs come before their readers.

    A search over sets of operations that have run, the lowest peak first, then the largest set. Wherever an operation
    fits under the peak so far and leaves no more bytes live than before, it runs at once: an order that runs it later
    holds at least as much in between. That takes chains of layers out of the choice.
    """
    graph = _Graph(nodes)
    start = graph.settled(_State(0, 0, 0, ()))
    waiting = [(start.peak, -len(start.order), 0, start)]
    seen: dict[int, int] = {start.done: start.peak}
    count = 0
    while True:
        peak, _, _, state = heapq.heappop(waiting)
        if len(state.order) == len(nodes):
            return MemoryPlan(peak, state.order, exact=count < most_states)
        following = [graph.settled(graph.after(state, node)) for node in graph.ready(state)]
        if count >= most_states:  # go on with the best one alone
            waiting, seen = [], {}
            following = [min(following, key=lambda one: (one.peak, one.live))]
        for one in following:
            if one.peak < seen.get(one.done, one.peak + 1):
                seen[one.done] = one.peak
                count += 1
                heapq.heappush(waiting, (one.peak, -len(one.order), count, one))


@dataclass(frozen=True)
class _State:
    done: int
    """The operations that have run, as bits."""
    live: int
    peak: int
    order: tuple[int, ...]


class _Graph:
    """A graph as the search for an order sees it, with sets as bits of a number."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.bytes = [node.bytes for node in nodes]
        self.inputs = [tuple(dict.fromkeys(node.inputs)) for node in nodes]
        self.needed = [sum(1 << source for source in inputs) for inputs in self.inputs]
        self.readers = [0] * len(nodes)
        for node, inputs in enumerate(self.inputs):
            for source in inputs:
                self.readers[source] |= 1 << node

    def ready(self, state: _State) -> list[int]:
        """Return the operations that have not run and whose inputs are there."""
        done = state.done
        return [node for node, needed in enumerate(self.needed) if not done >> node & 1 and needed & done == needed]

    def after(self, state: _State, node: int) -> _State:
        """Return the state of memory after an operation has run."""
        done, live = state.done | 1 << node, state.live + self.bytes[node]
        freed = sum(self.bytes[one] for one in self.inputs[node] if self.readers[one] & done == self.readers[one])
        return _State(done, live - freed, max(state.peak, live), (*state.order, node))

    def settled(self, state: _State) -> _State:
        """Run all operations that can only help."""
        moved = True
        while moved:
            moved = False
            for node in self.ready(state):
                following = self.after(state, node)
                if following.peak == state.peak and following.live <= state.live:
                    state, moved = following, True
        return state
