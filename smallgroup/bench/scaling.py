"""`bench scaling`: how the time of a fast step grows with one size at a time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import linear_regression
from typing import Any

from smallgroup.bench.cases import prepared
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.timing import Call, Measured, Watch, alternate
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces import DartsSpace

DIMENSIONS = ("learners", "batch", "cells", "channels")
ROUNDS = 3
DEFAULT = {"channels": 16, "cells": 6, "cells_per_stage": 1, "batch": 16, "size": 32}
QUICK = {"channels": 4, "cells": 3, "cells_per_stage": 1, "batch": 4, "size": 16}
_LEARNERS = range(1, 9)
_TIMES = (1, 2, 3, 4)


@dataclass(frozen=True)
class Fit:
    """seconds = c size^exponent, by least squares of the logarithms."""

    exponent: float
    deviation: float
    """The largest share by which a measured time is off that curve."""
    smallest: int
    """From where on it was fitted."""


@dataclass(frozen=True)
class Point:
    """One step."""

    dimension: str
    value: int
    step: GroupStep

    @property
    def name(self) -> str:
        """What varies."""
        return f"{self.dimension} = {self.value}"


def points(base: GroupStep, dimensions: Sequence[str]) -> list[Point]:
    """K = 1 to 8; once to four times the batch, cells and channels of the base."""
    found = []
    for dimension in dict.fromkeys(dimensions):
        check_choice("over", dimension, DIMENSIONS)
        field = "cells_per_stage" if dimension == "cells" and base.space != DartsSpace.name else dimension
        first = int(getattr(base, field))
        values = _LEARNERS if dimension == "learners" else [first * times for times in _TIMES]
        for value in values:
            change: dict[str, Any] = {field: value}
            found.append(Point(dimension, value, replace(base, **change)))
    return found


def fitted(sizes: Sequence[int], seconds: Sequence[float]) -> Fit:
    """The exponent of growth."""
    xs, ys = [math.log(size) for size in sizes], [math.log(time) for time in seconds]
    slope, intercept = linear_regression(xs, ys)
    off = max(abs(math.expm1(y - slope * x - intercept)) for x, y in zip(xs, ys, strict=True))
    return Fit(slope, off, min(sizes))


def measure(
    base: GroupStep, dimensions: Sequence[str], path: str, rounds: int, watch: Watch | None = None
) -> dict[str, Any]:
    """Rows and exponents, as `--json` prints them."""
    asked = points(base, dimensions)
    calls: dict[str, Call] = {}
    for point in asked:  # where two dimensions meet, at the base, there is one step
        if point.step.name not in calls:
            calls[point.step.name] = prepared(point.step.fast, path)
    found = alternate(calls, rounds, watch=watch)
    return {
        "rows": [_row(point, found[point.step.name], path) for point in asked],
        "exponents": {dimension: vars(fit) for dimension, fit in _fits(asked, found).items()},
    }


def _row(point: Point, found: Measured, path: str) -> dict[str, Any]:
    return {
        "name": point.name,
        "dimension": point.dimension,
        "value": point.value,
        "fast_seconds": found.median,
        "spread": found.spread,
        "path": path,
        **point.step.sizes,
    }


def _fits(asked: Sequence[Point], found: Mapping[str, Measured]) -> dict[str, Fit]:
    fits = {}
    for dimension in dict.fromkeys(point.dimension for point in asked):
        # A learner alone takes another step than one in a group: no labels, no V.
        own = [p for p in asked if p.dimension == dimension and not (dimension == "learners" and p.value == 1)]
        fits[dimension] = fitted([p.value for p in own], [found[p.step.name].median for p in own])
    return fits
