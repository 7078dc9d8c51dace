"""Numbers and small things as a reader wants them, each with where it comes from."""

from dataclasses import dataclass
from pathlib import Path

from smallgroup.report.run import RunState
from smallgroup.runtime.durations import written

STATES: dict[RunState, str] = {"finished": "finished", "running": "running now", "stopped": "not finished"}


@dataclass(frozen=True)
class Fact:
    """An entry of a list of facts."""

    title: str
    value: str
    source: str
    """The file and the key that it was read from."""
    more: str | None = None


@dataclass(frozen=True)
class SourcedText:
    """Words that say where they come from."""

    words: str
    source: str


def percent(value: float | None, digits: int = 2) -> str:
    """Return a share from 0 to 1 as percent."""
    return "not known" if value is None else f"{value:.{digits}f} %"


def signed(value: float, digits: int = 2) -> str:
    """Return a difference with its sign."""
    return f"{value:+.{digits}f}".replace("-", "\u2212")


def count(value: float | None) -> str:
    """Return a large number in short form, such as 14.1 k."""
    return "not known" if value is None else f"{value:,.0f}"


def sized(value: float | None) -> str:
    """Return a large number, rounded, such as 3.35 M."""
    if value is None:
        return "not known"
    for unit, power in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= power:
            return f"{value / power:.3g} {unit}"
    return f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """Return a length of time in words, such as 40 s."""
    if seconds is None:
        return "not known"
    return f"{seconds:.1f} s" if seconds < 10 else written(seconds)


def shown_path(folder: Path) -> str:
    """Return a path as a user would type it; a name that begins with a dash must not become an option."""
    words = str(folder)
    return f"./{words}" if words.startswith("-") else words
