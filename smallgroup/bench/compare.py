"""`bench compare`: two documents that `smallgroup bench ... --json` printed, row by row: what became slower."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from smallgroup.runtime.files import read_regular

LARGEST = 10_000_000
"""Most bytes of a document that is read."""
LEAST_ROUNDS = 3
"""With fewer rounds, ranges say too little: of three against three, one pair in ten is apart by chance."""
MEMORY_NOISE = 0.02
"""By which share a peak of memory may differ that nobody changed."""
HEAD = ("cpu", "threads", "torch", "path", "device")

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Change = Literal["faster", "slower", "not told apart", "too few rounds"]


class _Plain(BaseModel):
    """Input that is not trusted: what is not known is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Range(NamedTuple):
    """A measured number, and the lowest and highest of a single round."""

    value: float
    lowest: float
    highest: float


Spread = tuple[Positive, Positive]


class _JsonRow(_Plain):
    """A row of the output of any bench."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]
    ratio: Positive | None = None
    spread: Spread | None = None
    cpu_ratio: Positive | None = None
    cpu_spread: Spread | None = None
    fast_seconds: Positive | None = None
    fast_bytes: Positive | None = None

    def measured(self) -> tuple[str, bool, _Range] | None:
        """Return what is compared, whether more of it is better, and its range; None for a row that has nothing."""
        if self.cpu_ratio is not None and self.cpu_spread is not None:
            return "plain / fast, CPU", True, _ranged(self.cpu_ratio, self.cpu_spread)
        if self.fast_bytes is not None:
            off = (self.fast_bytes * (1 - MEMORY_NOISE), self.fast_bytes * (1 + MEMORY_NOISE))
            return "fast bytes", False, _ranged(self.fast_bytes, off)
        if self.fast_seconds is not None and self.spread is not None and self.ratio is None:
            return "fast seconds", False, _ranged(self.fast_seconds, self.spread)
        if self.ratio is not None and self.spread is not None:
            return "plain / fast", True, _ranged(self.ratio, self.spread)
        return None


class _Document(_Plain):
    """The JSON document that a bench prints."""

    rows: list[_JsonRow]
    growth: list[_JsonRow] = []
    rounds: int | None = None
    cpu: str = ""
    threads: int | None = None
    torch: str = ""
    path: str = ""
    device: str = "cpu"


_DOCUMENT = TypeAdapter(_Document)


@dataclass(frozen=True)
class ComparedRow:
    """A row that both documents have."""

    name: str
    what: str
    before: float
    after: float
    before_range: tuple[float, float]
    after_range: tuple[float, float]
    change: Change


@dataclass(frozen=True)
class BenchComparison:
    """Two measurements compared row by row."""

    rows: Sequence[ComparedRow]
    only_before: Sequence[str]
    only_after: Sequence[str]
    notes: Sequence[str]
    """Notes on differences in machine, versions and options."""

    @property
    def slower(self) -> list[str]:
        """Names of the rows that became slower."""
        return [row.name for row in self.rows if row.change == "slower"]

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `bench compare --json` prints."""
        return {**asdict(self), "slower": self.slower}


def compare(before: Path, after: Path) -> BenchComparison:
    """Compare two files, row by row; rows are paired by name.

    A row is slower, or faster, where the ranges of its rounds do not overlap: every round of one is beyond every round
    of the other.
    """
    old, new = _read(before), _read(after)
    rounds = [document.rounds for document in (old, new) if document.rounds is not None]
    enough = not rounds or min(rounds) >= LEAST_ROUNDS
    mine, others = _by_name(old), _by_name(new)
    rows = [
        row
        for name, one in mine.items()
        if name in others and (row := _compared(name, one, others[name], enough=enough)) is not None
    ]
    if not rows:
        raise ValueError(f"two files of the same benchmark are needed, but {before} and {after} have no row in common")
    return BenchComparison(
        rows,
        [name for name in mine if name not in others],
        [name for name in others if name not in mine],
        [
            f"{key} was {getattr(old, key)} and is {getattr(new, key)}"
            for key in HEAD
            if getattr(old, key) != getattr(new, key)
        ],
    )


def _read(path: Path) -> _Document:
    try:
        document = _DOCUMENT.validate_json(read_regular(path, LARGEST))
        if document.device == "cpu":
            return document
        # CPU seconds say nothing about another device.
        rows = [row.model_copy(update={"cpu_ratio": None}) for row in document.rows]
        return document.model_copy(update={"rows": rows})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise ValueError(
            f"{path} must be what `smallgroup bench ... --json` prints, but {where} is wrong: {first['msg']}"
        ) from None


def _by_name(document: _Document) -> dict[str, tuple[_JsonRow, bool]]:
    """Return rows by name, and whether one is about growth, where a lower ratio is better."""
    return {row.name: (row, grown) for rows, grown in ((document.rows, False), (document.growth, True)) for row in rows}


def _compared(
    name: str, before: tuple[_JsonRow, bool], after: tuple[_JsonRow, bool], *, enough: bool
) -> ComparedRow | None:
    (old, grown), (new, _) = before, after
    one, other = old.measured(), new.measured()
    if one is None or other is None or one[0] != other[0]:
        return None
    what, more_is_better, (a, b) = one[0], one[1] and not grown, (one[2], other[2])
    up, down = b.lowest > a.highest, b.highest < a.lowest
    change: Change = "not told apart"
    if not enough and what != "fast bytes":
        change = "too few rounds"
    elif up or down:
        change = "faster" if up == more_is_better else "slower"
    return ComparedRow(name, what, a.value, b.value, (a.lowest, a.highest), (b.lowest, b.highest), change)


def _ranged(value: float, spread: tuple[float, float]) -> _Range:
    return _Range(value, min(spread), max(spread))
