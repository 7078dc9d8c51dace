"""A time to spend, by the clock on the wall or by the time that this process computes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from smallgroup.runtime.checks import check_choice

Clock = Literal["wall", "cpu"]
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.monotonic, "cpu": time.process_time}
"""`cpu` is for comparisons on a busy machine: it counts the seconds of all threads of this process."""


@dataclass(frozen=True)
class Budget:
    """A time budget in seconds, counted from its creation."""

    seconds: float
    clock: Clock = "wall"
    start: float = field(default=-1.0)
    """When it began, by its clock; negative: now."""

    def __post_init__(self) -> None:
        check_choice("clock", self.clock, tuple(CLOCKS))
        if self.start < 0:
            object.__setattr__(self, "start", self.now())

    def now(self) -> float:
        """Return the time of the clock, in seconds."""
        return CLOCKS[self.clock]()

    @property
    def spent(self) -> float:
        """Return the seconds since the budget began."""
        return self.now() - self.start

    @property
    def left(self) -> float:
        """Seconds that are left, not below 0."""
        return max(0.0, self.seconds - self.spent)
