"""`bench scaling`: how the time of a fast step grows with one size at a time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Any

from smallgroup.bench.cases import prepared
from smallgroup.bench.plans import ScalingPoint
from smallgroup.bench.timing import Call, MeasuredTurns, TurnWatch, alternate

ROUNDS = 3


@dataclass(frozen=True)
class Fit:
    """seconds = c size^exponent, by least squares of the logarithms."""

    exponent: float
    deviation: float
    """The largest share by which a measured time is off that curve."""
    smallest: int
    """The smallest size that the fit includes."""


def fitted(sizes: Sequence[int], seconds: Sequence[float]) -> Fit:
    """Fit the exponent with which the time grows."""
    xs, ys = [math.log(size) for size in sizes], [math.log(time) for time in seconds]
    slope, intercept = linear_regression(xs, ys)
    off = max(abs(math.expm1(y - slope * x - intercept)) for x, y in zip(xs, ys, strict=True))
    return Fit(slope, off, min(sizes))


def measure(asked: Sequence[ScalingPoint], path: str, rounds: int, watch: TurnWatch | None = None) -> dict[str, Any]:
    """Measure all rows and return them with their exponents, as `--json` prints them."""
    calls: dict[str, Call] = {}
    for point in asked:  # where two dimensions meet, at the base, there is one step
        if point.step.name not in calls:
            calls[point.step.name] = prepared(point.step.fast, path)
    found = alternate(calls, rounds, watch=watch)
    return {
        "rows": [_row(point, found[point.step.name], path) for point in asked],
        "exponents": {dimension: vars(fit) for dimension, fit in _fits(asked, found).items()},
    }


def _row(point: ScalingPoint, found: MeasuredTurns, path: str) -> dict[str, Any]:
    return {
        "name": point.name,
        "dimension": point.dimension,
        "value": point.value,
        "fast_seconds": found.median,
        "spread": found.spread,
        "path": path,
        **point.step.sizes,
    }


def _fits(asked: Sequence[ScalingPoint], found: Mapping[str, MeasuredTurns]) -> dict[str, Fit]:
    fits = {}
    for dimension in dict.fromkeys(point.dimension for point in asked):
        # A learner alone takes another step than one in a group: no labels, no V.
        own = [p for p in asked if p.dimension == dimension and not (dimension == "learners" and p.value == 1)]
        fits[dimension] = fitted([p.value for p in own], [found[p.step.name].median for p in own])
    return fits
