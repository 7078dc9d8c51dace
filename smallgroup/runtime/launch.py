"""What `torchrun` says of this process; read before torch is loaded."""

import os
from dataclasses import dataclass

from smallgroup.runtime.checks import LONGEST

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """The place of this process among those that were launched together."""

    rank: int
    ranks: int
    local_rank: int
    """Among the processes of this machine: it chooses the device."""
    local_ranks: int
    """The number of processes of this machine."""
    restarts: int
    """How often `torchrun --max-restarts` has started all processes again."""

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which leads: it alone writes files and prints."""
        return self.rank == 0


def launched() -> Launch | None:
    """Return the place of this process; None if it was started alone, or is the only rank."""
    if not all(name in os.environ for name in _NEEDED):
        return None
    rank, ranks = _number("RANK"), _number("WORLD_SIZE", at_least=1)
    if rank >= ranks:
        raise ValueError(f"RANK must be below WORLD_SIZE, but they are {rank} and {ranks}")
    if ranks == 1:
        return None
    local_ranks = _number("LOCAL_WORLD_SIZE") or ranks
    return Launch(rank, ranks, _number("LOCAL_RANK"), local_ranks, _number("TORCHELASTIC_RESTART_COUNT"))


def _number(name: str, at_least: int = 0) -> int:
    text = os.environ.get(name, "0")
    if not (text.isascii() and text.isdigit() and int(text) >= at_least):
        raise ValueError(f"{name} must be a whole number of at least {at_least}, but it is {text[:LONGEST]!r}")
    return int(text)
