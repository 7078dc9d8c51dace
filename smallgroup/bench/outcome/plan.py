"""Which arms are compared on which data, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from smallgroup.bench.outcome.arms import ARMS
from smallgroup.bench.outcome.tasks import OutcomeTask, tasks

FULL_SEEDS, FEW_SEEDS = tuple(range(1001, 1011)), tuple(range(1001, 1006))
"""Seeds that nothing was tuned on."""
FEW = ("run", "run, independent pair", "random cell, same cost", "ResNet, own size")
SHORT = ("cifar100-5m", "cifar10-15m")
"""Tables of few arms and seeds."""


@dataclass(frozen=True)
class Unit:
    """One arm on one task with one seed: what one process does."""

    task: OutcomeTask
    arm: str
    seed: int

    @property
    def name(self) -> str:
        """Where its outcome is kept, below the folder of results."""
        plain = "".join(letter if letter.isalnum() else "-" for letter in self.arm)
        return f"{self.task.name}/{plain}/{self.seed}.json"


@dataclass(frozen=True)
class OutcomeTable:
    """A task, and what is compared on it."""

    task: OutcomeTask
    arms: Sequence[str]
    seeds: Sequence[int]

    def units(self) -> Iterator[Unit]:
        """Yield all units, seed by seed and `run` first: a study that is stopped has complete pairs."""
        for seed in self.seeds:
            for arm in self.arms:
                yield Unit(self.task, arm, seed)


def tables(folder: Path, *, quick: bool = False) -> list[OutcomeTable]:
    """Return every table; `quick` is a small form of seconds, to see that it runs."""
    every = tuple(ARMS)
    if quick:
        # A tuning seed (101 and up): a trial looks at no seed that is reported.
        return [OutcomeTable(task, every, (101,)) for task in tasks(folder, quick=True)]
    return [
        OutcomeTable(task, FEW, FEW_SEEDS) if task.name in SHORT else OutcomeTable(task, every, FULL_SEEDS)
        for task in tasks(folder)
    ]
