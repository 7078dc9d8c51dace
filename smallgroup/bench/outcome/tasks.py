"""What arms are compared on: datasets, and a time for each; known before torch is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smallgroup.config import Config, resolve
from smallgroup.places import check_empty

CLOTHING = "clothing"
"""The folder of drawn clothes, below the folder of results."""
MOST_WORKERS = 64


@dataclass(frozen=True)
class OutcomeTask:
    """A task: a dataset and a CPU time budget."""

    name: str
    dataset: str
    seconds: float
    """CPU seconds that an arm may use, for everything it does."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Keys of the config beside the recipe `quick`."""

    def config(self, seed: int, **more: Any) -> Config:  # noqa: ANN401 -- keys of a config
        """Return the config of a run on this task, on the CPU: its seconds are the budget of an arm."""
        return resolve({"dataset": self.dataset, "seed": seed, "device": "cpu", **self.settings, **more})


def tasks(folder: Path, *, quick: bool = False) -> list[OutcomeTask]:
    """Return every task; `quick` is a small form of seconds, to see that it runs."""
    if quick:
        return [OutcomeTask("digits-quick", "digits", 40.0)]
    clothes = f"folder:{folder / CLOTHING}"
    return [
        OutcomeTask("digits-2m", "digits", 120.0),
        OutcomeTask("cifar10-5m", "cifar10", 300.0),
        OutcomeTask("clothing-5m", clothes, 300.0),
        OutcomeTask("cifar100-5m", "cifar100", 300.0),
        OutcomeTask("cifar10-15m", "cifar10", 900.0),
    ]


def check_asked(folder: Path, only: str, workers: int, *, quick: bool) -> None:
    """Refuse a folder of something else, tables that there are not, and too many processes."""
    if not 1 <= workers <= MOST_WORKERS:
        raise ValueError(f"1 <= workers <= {MOST_WORKERS} must hold, but got workers={workers}")
    names = [task.name for task in tasks(folder, quick=quick)]
    if not any(only in name for name in names):
        raise ValueError(f"--only must be part of the name of a table ({', '.join(names)}), but got {only[:60]!r}")
    if folder.exists() and not any((folder / name).exists() for name in names):
        check_empty(folder, "a comparison")
