"""Settings a user may get wrong: the rule, and the value that breaks it, in one sentence."""

import math
from collections.abc import Sequence
from numbers import Real

LONGEST = 200
"""Characters of a value that may enter a sentence."""


def check_choice(name: str, value: object, choices: Sequence[str], more: str = "") -> None:
    """Refuse a word that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}{more}, but got {repr(value)[:LONGEST]}")


def check_number(name: str, value: object, *, positive: bool = False) -> None:
    """Refuse what is not a finite number from 0 on, or above it."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, but got {type(value).__name__}")
    low, number = "0 <" if positive else "0 <=", float(value)
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(f"{low} {name} < infinity must hold, but got {name}={value}")


def check_counts(*, at_least: int = 1, **counts: object) -> None:
    """Refuse what is not a whole number from `at_least` on, by name."""
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError(f"{name} must be a whole number, but got {type(count).__name__}")
        if count < at_least:
            raise ValueError(f"{name} >= {at_least} must hold, but got {name}={count}")
