"""A time to spend, by the clock on the wall or by the time that this process computes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Clock = Literal["wall", "cpu"]
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.monotonic, "cpu": time.process_time}
"""`cpu` is for comparisons on a busy machine: it counts the seconds of all threads of this process."""


@dataclass(frozen=True)
class Budget:
    """Seconds from now on."""

    seconds: float
    clock: Clock = "wall"
    start: float = field(default=-1.0)
    """When it began, by its clock; negative: now."""

    def __post_init__(self) -> None:
        if self.start < 0:
            object.__setattr__(self, "start", self.now())

    def now(self) -> float:
        """What the clock says."""
        return CLOCKS[self.clock]()

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.now() - self.start

    @property
    def left(self) -> float:
        """Seconds that are left, not below 0."""
        return max(0.0, self.seconds - self.spent)
