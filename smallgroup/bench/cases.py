"""What can be computed in two ways, and a row of what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from smallgroup.bench.paths import PLAIN, on
from smallgroup.bench.timing import Call, MeasuredTurns, ratio


class Case(Protocol):
    """A computation in the textbook form and as the package does it."""

    @property
    def name(self) -> str:
        """Return the name of the row in tables."""
        ...

    @property
    def sizes(self) -> dict[str, Any]:
        """Return the sizes that the time of the computation depends on."""
        ...

    def plain(self) -> Call:
        """Return the textbook form, ready to be called."""
        ...

    def fast(self) -> Call:
        """Return the package's fast form, ready to be called; it gives the same numbers."""
        ...


@dataclass(frozen=True)
class BenchRow:
    """Two ways of one computation, side by side."""

    name: str
    plain_seconds: float
    fast_seconds: float
    """Median seconds of the fast form."""
    ratio: float
    """plain / fast, of the medians."""
    spread: tuple[float, float]
    """The lowest and the highest ratio of a round."""
    plain_spread: tuple[float, float]
    fast_spread: tuple[float, float]
    """Shortest and longest time of a round."""
    plain_cpu_seconds: float
    fast_cpu_seconds: float
    """Medians of the CPU seconds of all threads."""
    cpu_ratio: float
    """plain / fast of these: other work on the machine disturbs it less."""
    cpu_spread: tuple[float, float]
    difference: float
    """How far their first results are apart, in units of the largest number of each."""
    path: str
    sizes: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as `--json` prints it: sizes stand among the other keys."""
        found = dict(vars(self))
        sizes = found.pop("sizes")
        return {**found, **sizes}


def row(case: Case, plain: MeasuredTurns, fast: MeasuredTurns, path: str) -> BenchRow:
    """Return the row of a table with the result of a case."""
    found, own = ratio(plain, fast), ratio(plain.on_the_processor, fast.on_the_processor)
    return BenchRow(
        name=case.name,
        plain_seconds=plain.median,
        fast_seconds=fast.median,
        ratio=found.value,
        spread=found.spread,
        plain_spread=plain.spread,
        fast_spread=fast.spread,
        plain_cpu_seconds=plain.on_the_processor.median,
        fast_cpu_seconds=fast.on_the_processor.median,
        cpu_ratio=own.value,
        cpu_spread=own.spread,
        difference=difference(fast.first, plain.first),
        path=path,
        sizes=case.sizes,
    )


def prepared(make: Callable[[], Call], path: str) -> Call:
    """Return a call that is made, and runs, on a path."""
    with on(path):
        call = make()

    def inside() -> Sequence[Tensor | None]:
        with on(path):
            return call()

    return inside


def contenders(case: Case, path: str) -> tuple[Call, Call]:
    """Return the plain and the fast form of a case."""
    return prepared(case.plain, PLAIN), prepared(case.fast, path)


def difference(found: Sequence[Tensor | None], expected: Sequence[Tensor | None]) -> float:
    """Return the largest difference over all results; a missing one counts as zero."""
    apart = 0.0
    for one, other in zip(found, expected, strict=True):
        if one is None or other is None:
            continue
        # Numbers that are all zero have no scale of their own.
        scale = max(float(other.abs().max()), 1e-30)
        apart = max(apart, float((one - other).abs().max()) / scale)
    return apart
