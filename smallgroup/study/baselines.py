"""What stands beside searches on NAS-Bench-201: cells that were looked up, or chosen without any image.

Who looks accuracies up does so in one column of the table and is scored by another one: to be scored by the column that
was searched is to know the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from smallgroup.config import Config
from smallgroup.methods import Relaxed
from smallgroup.runtime import stream
from smallgroup.spaces.nas_bench_201 import Truth
from smallgroup.spaces.nas_bench_201.cell import EDGES, OPERATIONS, Cell

POPULATION, SAMPLE = 10, 3
"""Of regularized evolution: cells that are alive, and how many of them compete to have a child."""


@dataclass(frozen=True)
class Lookups:
    """A column of the table that may be looked at so many times."""

    truth: Truth
    column: str
    allowed: int

    def best(self, propose: Callable[[list[tuple[float, Cell]]], Cell]) -> Cell:
        """The best of what is proposed, each time after a look at all that was seen."""
        seen: list[tuple[float, Cell]] = []
        for _ in range(self.allowed):
            cell = propose(seen)
            seen.append((self.truth.columns[self.column][cell], cell))
        return max(seen, key=lambda pair: pair[0])[1]


def picked(kind: str, config: Config, lookups: Lookups) -> list[Cell]:
    """The cells of a baseline with the seed of a config: one, or one per learner."""
    if kind == "untrained":
        return untrained(config)
    return [random_search(lookups, config.seed) if kind == "random" else evolution(lookups, config.seed)]


def random_search(lookups: Lookups, seed: int) -> Cell:
    """The best of cells that are drawn at random."""
    draw = stream(seed, "random-search")
    return lookups.best(lambda _: _random_cell(draw))


def evolution(lookups: Lookups, seed: int) -> Cell:
    """Regularized evolution: the best of a few of the living has a child with one edge changed; the oldest dies."""
    draw = stream(seed, "evolution")

    def propose(seen: list[tuple[float, Cell]]) -> Cell:
        if len(seen) < POPULATION:
            return _random_cell(draw)
        alive = seen[-POPULATION:]
        chosen = torch.randperm(POPULATION, generator=draw)[:SAMPLE].tolist()
        return _mutated(max((alive[i] for i in chosen), key=lambda pair: pair[0])[1], draw)

    return lookups.best(propose)


def untrained(config: Config) -> list[Cell]:
    """What the learners of a search would be if it ended before its first step."""
    cells = []
    for number, learner in enumerate(config.learners):
        space = (learner.space or config.space).build(image_size=32, classes=10, image_channels=3)
        relaxed = Relaxed(space, config.build_method(learner), seed=config.seed, learner=number)
        cells.append(relaxed.derive(relaxed.initial_architecture()))
    return cells


def _random_cell(draw: torch.Generator) -> Cell:
    return Cell(tuple(OPERATIONS[i] for i in torch.randint(len(OPERATIONS), (len(EDGES),), generator=draw).tolist()))


def _mutated(cell: Cell, draw: torch.Generator) -> Cell:
    """Another operation on one edge."""
    edge = int(torch.randint(len(EDGES), (), generator=draw))
    others = [operation for operation in OPERATIONS if operation != cell.operations[edge]]
    operations = list(cell.operations)
    operations[edge] = others[int(torch.randint(len(others), (), generator=draw))]
    return Cell(tuple(operations))
