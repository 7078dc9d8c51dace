"""Contenders take turns, so that whatever else the machine does meets all of them alike."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from torch import Tensor

from smallgroup.runtime.checks import check_counts
from smallgroup.runtime.device import current, wait_for

Call = Callable[[], Sequence[Tensor | None]]
"""One computation, and what comes of it: contenders of one row must agree on that."""


class Turn(NamedTuple):
    """A turn that is about to begin."""

    name: str
    number: int
    """The index of the turn among `turns`, from 0."""
    turns: int
    round: int
    """The counted round, from 1; 0 only warms up."""
    left: float | None
    """Seconds until all is over, once a round has shown how long turns take."""


TurnWatch = Callable[[Turn], None]


@dataclass(frozen=True)
class MeasuredTurns:
    """The seconds of one contender in every counted round, and what came of its first call."""

    seconds: tuple[float, ...]
    first: Sequence[Tensor | None] = ()
    cpu_seconds: tuple[float, ...] = ()
    """CPU seconds of all threads of the process, without those of other processes."""

    @property
    def median(self) -> float:
        """In the middle of all rounds."""
        return median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the shortest and the longest turn."""
        return min(self.seconds), max(self.seconds)

    @property
    def on_the_processor(self) -> "MeasuredTurns":
        """The same turns in CPU seconds."""
        return MeasuredTurns(self.cpu_seconds, self.first)


class Ratio(NamedTuple):
    """The ratio of two times."""

    value: float
    """The ratio of the medians."""
    spread: tuple[float, float]
    """The lowest and the highest of a single round."""


def ratio(slow: MeasuredTurns, fast: MeasuredTurns) -> Ratio:
    """Return the ratio slow / fast."""
    rounds = [a / b for a, b in zip(slow.seconds, fast.seconds, strict=True)]
    return Ratio(slow.median / fast.median, (min(rounds), max(rounds)))


def alternate(
    contenders: Mapping[str, Call],
    rounds: int,
    *,
    least: float = 0.0,
    watch: TurnWatch | None = None,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.process_time,
) -> dict[str, MeasuredTurns]:
    """Time every contender once per round, in the order given, after a warm-up round.

    A turn lasts `least` seconds at least: what is shorter is called several times, and its mean counts.
    """
    check_counts(rounds=rounds)
    names, turns = list(contenders), (rounds + 1) * len(contenders)
    first: dict[str, Sequence[Tensor | None]] = {}
    calls: dict[str, int] = {}
    expected: dict[str, float] = {}
    times: dict[str, list[float]] = {name: [] for name in names}
    cpu_times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        round_, place = divmod(turn, len(names))
        name = names[place]
        if watch is not None:
            rest = sum(expected[other] for other in names[place:]) if round_ else 0.0
            left = rest + (rounds - round_) * sum(expected.values()) if round_ else None
            watch(Turn(name, turn, turns, round_, left))
        if round_ == 0:
            first[name], calls[name], expected[name] = _warmed_up(contenders[name], least, clock)
        else:
            start = cpu_clock()
            expected[name] = _timed(contenders[name], calls[name], clock)
            times[name].append(expected[name] / calls[name])
            cpu_times[name].append((cpu_clock() - start) / calls[name])
    return {name: MeasuredTurns(tuple(times[name]), first[name], tuple(cpu_times[name])) for name in names}


def _warmed_up(call: Call, least: float, clock: Callable[[], float]) -> tuple[Sequence[Tensor | None], int, float]:
    """Return the result of a first call, the number of calls that make a turn, and how long a turn will take."""
    start = clock()
    result = call()
    wait_for(current())
    seconds = clock() - start
    if least == 0:
        return result, 1, seconds
    seconds = _timed(call, 1, clock)  # the first one may have built something
    calls = max(1, math.ceil(least / max(seconds, 1e-9)))
    return result, calls, calls * seconds


def _timed(call: Call, calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        call()
    wait_for(current())
    return clock() - start
