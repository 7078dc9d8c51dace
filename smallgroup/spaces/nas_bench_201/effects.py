"""What each operation on each edge is worth in the table of true accuracies, and how well scores agree with it.

A single derived cell is a coarse measure of a search. The scores of a learner say something of every operation on every
edge, and so does an additive fit of the table: their rank correlation uses all of it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import scipy  # its parts are loaded when they are used: most commands need none

from smallgroup.spaces.nas_bench_201.cell import EDGES, OPERATIONS, Cell

_NONE = OPERATIONS.index("none")


@dataclass(frozen=True)
class AdditiveFit:
    """Accuracy = mean + the sum of one effect per edge, by least squares over all cells."""

    mean: float
    effects: tuple[tuple[float, ...], ...]
    """[edges, operations], in the orders of `EDGES` and `OPERATIONS`; those of an edge add up to zero."""
    r_squared: float
    """The share of the variance of all cells that the fit explains."""


def additive_fit(accuracies: Mapping[Cell, float]) -> AdditiveFit:
    """Return the least-squares fit to a table of all cells.

    Every operation occurs on every edge beside every choice on the other edges equally often. So the estimates do not
    depend on one another: the effect of an operation is the mean over the cells that have it, minus the overall mean.
    """
    mean = fmean(accuracies.values())
    sums = [dict.fromkeys(OPERATIONS, 0.0) for _ in EDGES]
    for cell, accuracy in accuracies.items():
        for own, operation in zip(sums, cell.operations, strict=True):
            own[operation] += accuracy - mean
    share = len(accuracies) / len(OPERATIONS)
    effects = tuple(tuple(total / share for total in own.values()) for own in sums)
    explained = share * math.fsum(effect**2 for own in effects for effect in own)
    total = math.fsum((accuracy - mean) ** 2 for accuracy in accuracies.values())
    return AdditiveFit(mean, effects, explained / total if total > 0 else 0.0)


def score_correlation(scores: Sequence[Sequence[float]], fit: AdditiveFit) -> float | None:
    """Return Spearman's correlation of scores, [edges, operations], with the effects of a fit.

    `none` is left out, as derivation leaves it out, and both are centered on each edge: only differences between the
    operations of an edge decide what is derived. None where the scores, or the effects, are all the same.
    """
    x, y = _centered_without_none(scores), _centered_without_none(fit.effects)
    if len(set(x)) == 1 or len(set(y)) == 1:
        return None
    return float(scipy.stats.spearmanr(x, y).statistic)


def _centered_without_none(rows: Sequence[Sequence[float]]) -> list[float]:
    kept = [[value for column, value in enumerate(row) if column != _NONE] for row in rows]
    # Rounded far below what is measured: values that are equal must stay ties after the subtraction.
    return [round(value - fmean(row), 12) for row in kept for value in row]
