"""One number over several runs."""

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
"""Of values along an axis."""


@dataclass(frozen=True)
class Summary:
    """Values of independent runs."""

    n: int
    mean: float
    median: float
    std: float | None
    """Of a sample (n - 1); None where there are too few."""
    interval: tuple[float, float] | None
    """95 % for the mean, by bootstrap."""
    lowest: float
    highest: float


def summarise(values: Sequence[float]) -> Summary:
    """All values count; there must be one."""
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


@dataclass(frozen=True)
class Variation:
    """Where the spread of an error comes from: searches find different cells, and each trains differently each time."""

    searches: int
    retrainings: tuple[int, ...]
    """Of each search."""
    mean: float
    """Over searches, of their means."""
    over_searches: float | None
    """The standard deviation of the searches' means: what another search would change."""
    over_retrainings: float | None
    """That of retrainings of one cell, pooled over the searches that have several."""


def variation(by_search: Sequence[Sequence[float]]) -> Variation:
    """From one row of retrainings per search."""
    rows = [checked(row) for row in by_search]
    if not rows:
        raise ValueError("there must be a search, but got none")
    means = np.array([row.mean() for row in rows])
    repeated = [row for row in rows if len(row) > 1]
    freedom = sum(len(row) - 1 for row in repeated)
    pooled = math.sqrt(sum(float(row.var(ddof=1)) * (len(row) - 1) for row in repeated) / freedom) if freedom else None
    return Variation(
        searches=len(rows),
        retrainings=tuple(len(row) for row in rows),
        mean=float(means.mean()),
        over_searches=float(means.std(ddof=1)) if len(means) >= LEAST else None,
        over_retrainings=pooled if freedom >= LEAST - 1 else None,
    )


def bootstrap_interval(x: Values, statistic: Statistic) -> tuple[float, float]:
    """By percentiles: the one kind that is also defined for values that are all the same."""
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
    """As an array of finite numbers."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or not len(x):
        raise ValueError(f"there must be a row of numbers, but got {str(values)[:60]}")
    if not np.isfinite(x).all():
        raise ValueError(f"values must be finite, but got {str(values)[:60]}")
    return x
