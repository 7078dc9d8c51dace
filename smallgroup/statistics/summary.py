"""Summarize one number over several runs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used: most commands need none
from numpy.typing import NDArray

LEAST = 3
"""Fewer numbers than this have no deviation that would be worth printing."""
RESAMPLES = 9_999
CONFIDENCE = 0.95
_SEED = 20_260
"""Of the resampling: a table printed twice is the same table."""

Values = NDArray[np.float64]
Statistic = Callable[..., Values]
"""A statistic of values along an axis, such as the mean."""


@dataclass(frozen=True)
class Summary:
    """Summary of the values of independent runs."""

    n: int
    mean: float
    median: float
    std: float | None
    """Standard deviation of a sample (n - 1); None if there are too few."""
    interval: tuple[float, float] | None
    """95 % for the mean, by bootstrap."""
    lowest: float
    highest: float


def summarize(values: Sequence[float]) -> Summary:
    """Summarize values; there must be at least one."""
    x = checked(values)
    enough = len(x) >= LEAST
    return Summary(
        n=len(x),
        mean=float(x.mean()),
        median=float(np.median(x)),
        std=float(x.std(ddof=1)) if enough else None,
        interval=bootstrap_interval(x, np.mean) if enough else None,
        lowest=float(x.min()),
        highest=float(x.max()),
    )


def over_retrainings(by_search: Sequence[Sequence[float]]) -> float | None:
    """Return the standard deviation of trainings of one cell, pooled over searches; None if there are too few.

    What searches differ by is not in it: they find different cells, and each trains differently each time.
    """
    repeated = [checked(row) for row in by_search if len(row) > 1]
    freedom = sum(len(row) - 1 for row in repeated)
    if freedom < LEAST - 1:
        return None
    return math.sqrt(sum(float(row.var(ddof=1)) * (len(row) - 1) for row in repeated) / freedom)


def bootstrap_interval(x: Values, statistic: Statistic) -> tuple[float, float]:
    """Return the percentile interval, which is also defined for values that are all the same."""
    found = scipy.stats.bootstrap(
        (x,),
        statistic,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        rng=_SEED,
    ).confidence_interval
    return float(found.low), float(found.high)


def checked(values: Sequence[float]) -> Values:
    """Return values as an array of finite numbers, or refuse them."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or not len(x):
        raise ValueError(f"there must be a row of numbers, but got {str(values)[:60]}")
    if not np.isfinite(x).all():
        raise ValueError(f"values must be finite, but got {str(values)[:60]}")
    return x
