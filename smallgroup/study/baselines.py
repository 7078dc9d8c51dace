"""What stands beside searches where accuracies are known: cells that were looked up, or chosen without any image.

Who looks accuracies up in a table does so in one column and is scored by another one: to be scored by the column that
was searched is to know the answer. A surrogate has one column alone, and the page of a study says so.
"""

from dataclasses import dataclass

from smallgroup.config import Config
from smallgroup.methods import Relaxed
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Genotype, GroundTruth, definition_of
from smallgroup.study.discrete import SEARCHES


@dataclass(frozen=True)
class Lookups:
    """A column of a table or surrogate that may be looked at so many times."""

    truth: GroundTruth
    column: str
    allowed: int

    def best(self, kind: str, seed: int) -> Genotype:
        """Return the best cell that a discrete search sees."""
        search, purpose = SEARCHES[kind]
        proposals = search(definition_of(self.truth.space), stream(seed, purpose))
        seen: list[tuple[float, Genotype]] = []
        cell: Genotype | None = next(proposals)
        while cell is not None:
            seen.append((self.truth.accuracy(cell, self.column), cell))
            cell = None
            if len(seen) < self.allowed:
                try:
                    cell = proposals.send(seen[-1][0])
                except StopIteration:  # it has seen all cells
                    break
        return max(seen, key=lambda pair: pair[0])[1]


def picked(kind: str, config: Config, lookups: Lookups) -> list[Genotype]:
    """Draw the cells of a baseline with the seed of a config: one, or one per learner."""
    return untrained(config) if kind == "untrained" else [lookups.best(kind, config.seed)]


def untrained(config: Config) -> list[Genotype]:
    """Return the cells that the learners of a search would have if it ended before its first step."""
    cells = []
    for number, learner in enumerate(config.learners):
        space = (learner.space or config.space).build(ImageSpec())
        relaxed = Relaxed(space, config.build_method(learner), seed=config.seed, learner=number)
        cells.append(relaxed.derive(relaxed.initial_architecture()))
    return cells
