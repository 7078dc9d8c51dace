"""What stands beside searches where accuracies are known: cells that were looked up, or chosen without any image.

Who looks accuracies up does so in one column of the table and is scored by another one: to be scored by the column that
was searched is to know the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from smallgroup.config import Config
from smallgroup.methods import Relaxed
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Genotype, GroundTruth, definition_of

POPULATION, SAMPLE = 10, 3
"""Of regularized evolution: cells that are alive, and how many of them compete to have a child."""


@dataclass(frozen=True)
class Lookups:
    """A column of the table that may be looked at so many times."""

    truth: GroundTruth
    column: str
    allowed: int

    def best(self, propose: Callable[[list[tuple[float, Genotype]]], Genotype]) -> Genotype:
        """The best of what is proposed, each time after a look at all that was seen."""
        seen: list[tuple[float, Genotype]] = []
        for _ in range(self.allowed):
            cell = propose(seen)
            seen.append((self.truth.accuracy(cell, self.column), cell))
        return max(seen, key=lambda pair: pair[0])[1]


def picked(kind: str, config: Config, lookups: Lookups) -> list[Genotype]:
    """The cells of a baseline with the seed of a config: one, or one per learner."""
    if kind == "untrained":
        return untrained(config)
    return [random_search(lookups, config.seed) if kind == "random" else evolution(lookups, config.seed)]


def random_search(lookups: Lookups, seed: int) -> Genotype:
    """The best of cells that are drawn at random."""
    draw, definition = stream(seed, "random-search"), definition_of(lookups.truth.space)
    return lookups.best(lambda _: definition.sampled(draw))


def evolution(lookups: Lookups, seed: int) -> Genotype:
    """Regularized evolution: the best of a few of the living has a child with one edge changed; the oldest dies."""
    draw, definition = stream(seed, "evolution"), definition_of(lookups.truth.space)

    def propose(seen: list[tuple[float, Genotype]]) -> Genotype:
        if len(seen) < POPULATION:
            return definition.sampled(draw)
        alive = seen[-POPULATION:]
        chosen = torch.randperm(POPULATION, generator=draw)[:SAMPLE].tolist()
        return definition.mutated(max((alive[i] for i in chosen), key=lambda pair: pair[0])[1], draw)

    return lookups.best(propose)


def untrained(config: Config) -> list[Genotype]:
    """What the learners of a search would be if it ended before its first step."""
    cells = []
    for number, learner in enumerate(config.learners):
        space = (learner.space or config.space).build(ImageSpec())
        relaxed = Relaxed(space, config.build_method(learner), seed=config.seed, learner=number)
        cells.append(relaxed.derive(relaxed.initial_architecture()))
    return cells
