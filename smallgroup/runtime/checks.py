"""Settings a user may get wrong: the rule, and the value that breaks it, in one sentence."""

import difflib
import math
from collections.abc import Iterable, Sequence
from numbers import Real

from smallgroup.runtime.bounds import MOST

LONGEST = 200
"""Characters of a value that may enter a sentence."""


def check_choice(name: str, value: object, choices: Sequence[str], more: str = "") -> None:
    """Refuse a word that is not one of the choices, and suggest the one that is most like it."""
    if value not in choices:
        rule = f"{name} must be one of {', '.join(choices)}{more}, but got {repr(value)[:LONGEST]}"
        raise ValueError(rule + suggestion(value, choices))


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return the end of a sentence that names the known word most like a misspelled one; nothing if none is like it."""
    near = nearest(word, known) if isinstance(word, str) else None
    return "" if near is None else f"; did you mean {near}?"


def nearest(word: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return the known word that begins with a given one, or else the one most like it.

    `likeness` goes from 0 (any word) to 1 (the same word but for case, hyphens and underscores).
    """
    plain: dict[str, str] = {}
    for name in known:
        plain.setdefault(unmarked(name), name)
    wanted = unmarked(word[:LONGEST])
    bare = wanted.replace("-", "")
    beginnings = [name for name in plain if name.replace("-", "").startswith(bare)] if len(bare) > 3 else []
    found = difflib.get_close_matches(wanted, plain, n=1, cutoff=likeness)
    near = min(beginnings, key=len) if beginnings else found[0] if found else None
    return None if near is None else plain[near]


def unmarked(word: str) -> str:
    """Return a word without what people write one way or the other: case, hyphens, underscores, spaces at the ends."""
    return word.strip().lower().replace("_", "-")


def check_number(name: str, value: object, *, positive: bool = False, signed: bool = False) -> None:
    """Refuse what is not a finite number from 0 on, or above it, or of either sign."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, but got {type(value).__name__}")
    low, number = "-infinity <" if signed else "0 <" if positive else "0 <=", float(value)
    if not math.isfinite(number) or (number < 0 and not signed) or (positive and number == 0):
        raise ValueError(f"{low} {name} < infinity must hold, but got {name}={value}")


def check_counts(*, at_least: int = 1, **counts: object) -> None:
    """Refuse what is not a whole number from `at_least` on, or above the bound that its name has."""
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError(f"{name} must be a whole number, but got {type(count).__name__}")
        if count < at_least:
            raise ValueError(f"{name} >= {at_least} must hold, but got {name}={count}")
        if count > (most := MOST.get(name, math.inf)):
            raise ValueError(f"{name} <= {most:,} must hold, but got {name}={str(count)[:LONGEST]}")


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability, and the one with which nothing would be left."""
    if isinstance(value, int | float) and not 0 <= value < 1:
        raise ValueError(f"0 <= {name} < 1 must hold, but got {name}={value}")
    check_number(name, value)
