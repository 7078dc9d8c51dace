"""Axes of charts: round numbers at ticks, and ends that do not blow small differences up."""

import math
from collections.abc import Sequence
from itertools import pairwise

EXACT = 6
"""Digits of a number that is read as such, and not as a place on an axis."""
RANGES = {"share": (0.0, 1.0), "probability": (0.0, 1.0), "cosine": (-1.0, 1.0)}
"""Units whose ends are known: an axis shows all of it."""
LEAST = 0.1
"""An axis spans at least this part of the largest value: 0.9999 to 1 is a flat line, not a cliff."""
LEAST_LOG = 0.5
"""And on a logarithmic axis at least so many powers of ten."""


def in_digits(value: float, digits: int = EXACT) -> str:
    """Return a number rounded to so many digits, without trailing zeros."""
    if value == 0:
        return "0"
    if abs(value) >= 10000 or abs(value) < 0.001:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa.rstrip('0').removesuffix('.')}e{int(exponent)}"
    return f"{value:.{digits}g}"


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return a label per tick, with as many digits as tell it to a thousandth of the way to the next."""
    way = min((after - before for before, after in pairwise(ticks)), default=max(map(abs, ticks), default=0.0))
    words: list[str] = []
    for digits in range(4, 17):
        words = [in_digits(tick, digits) for tick in ticks]
        if all(abs(float(one) - tick) <= way / 1000 for one, tick in zip(words, ticks, strict=True)):
            break
    return words


def axis_of(values: Sequence[float], unit: str = "", *, log: bool = False) -> tuple[float, float, list[float]]:
    """Return lower and upper end, and the round numbers between them; the ends of a logarithmic axis are powers."""
    low, high = min(values), max(values)
    if log:
        low, high = math.log10(low), math.log10(high)
        pad = max(0.05 * (high - low), (LEAST_LOG - (high - low)) / 2)
        low, high = low - pad, high + pad
        powers = [10.0**power for power in range(math.ceil(low), math.floor(high) + 1)]
        if len(powers) < 2:
            powers = _rounded_between(low, high)
        return low, high, powers[:: max(1, len(powers) // 5)]
    known = RANGES.get(unit)
    if known is not None and known[0] <= low and high <= known[1]:
        low, high = known
    else:
        low, high = _spanned(low, high)
    step = _round_step((high - low) / 4)
    return low, high, [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _spanned(low: float, high: float) -> tuple[float, float]:
    """Return ends with some room, from 0 on where the values come near it."""
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    least = LEAST * max(abs(low), abs(high)) or 1.0
    pad = max(0.05 * (high - low), (least - (high - low)) / 2)
    return (low if low == 0 else low - pad), high + pad


def _rounded_between(low: float, high: float) -> list[float]:
    """Return three numbers spaced evenly between two logarithms, with as few digits as leave them about there."""
    places = [low + share * (high - low) for share in (0.1, 0.5, 0.9)]
    numbers: list[float] = []
    for digits in range(1, 16):
        numbers = [float(f"{10**place:.{digits}e}") for place in places]
        if all(abs(math.log10(n) - place) <= 0.05 * (high - low) for n, place in zip(numbers, places, strict=True)):
            break
    return numbers


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= rough), 10 * power)


def whole_ticks(first: int, last: int) -> list[int]:
    """Return round whole numbers between two, the first among them."""
    step = max(1, math.ceil(_round_step(max(1, (last - first) / 6))))
    return list(range(first, last + 1, step))
