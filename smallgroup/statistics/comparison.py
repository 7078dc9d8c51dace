"""Two rows of a table: is one better, by how much, and could it be luck?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy  # its parts are loaded when they are used: most commands need none

from smallgroup.statistics.summary import LEAST, RESAMPLES, Values, bootstrap_interval, checked

_SEED = 20_261
_LARGEST_EXACT = 50
"""Pairs up to which the distribution of signed ranks is computed instead of approximated."""

_DECIMALS = 9
"""Of differences, relative to the numbers: far below what is measured, far above the rounding of floating point."""


@dataclass(frozen=True)
class Comparison:
    """The first row minus the second."""

    kind: Literal["wilcoxon", "welch"]
    n: tuple[int, int]
    """Runs of each that were compared."""
    difference: float
    """The median of the paired differences, or the difference of the means."""
    interval: tuple[float, float] | None
    """95 %; by bootstrap for pairs, of which there must be three. None where there are too few."""
    p: float | None
    """Two-sided. None with fewer than two runs."""
    smallest_p: float | None
    """What p would be if every pair spoke for one side: with few seeds no result can be significant. Of pairs alone."""
    effect: float | None
    """For paired rows, the share of ranks in favor of the first minus that of the second, from -1 to 1.
    Else the difference in units of the common deviation (Hedges' g)."""
    better: int
    """Pairs in which the first row has the larger number."""
    worse: int
    equal: int

    @property
    def least_p(self) -> float | None:
        """Below which p cannot be; None where there is none. Means have no such limit."""
        return 0.0 if self.kind == "welch" and self.p is not None else self.smallest_p


def compare_paired(first: Mapping[int, float], second: Mapping[int, float]) -> Comparison:
    """Compare by Wilcoxon's signed ranks over the seeds that both have.

    Right for accuracies whose distribution has heavy tails: only order and sign of the differences count.
    """
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        raise ValueError("paired rows must have a seed in common, but they have none")
    x, y = checked([first[seed] for seed in seeds]), checked([second[seed] for seed in seeds])
    d, even = x - y, _evened(x, y)
    moved = even[even != 0]
    several = len(d) > 1
    return Comparison(
        kind="wilcoxon",
        n=(len(d), len(d)),
        difference=float(np.median(d)),
        interval=bootstrap_interval(d, np.median) if len(d) >= LEAST else None,
        p=_signed_ranks(moved) if several else None,
        smallest_p=smallest_p(len(d)) if several else None,
        effect=_rank_biserial(moved),
        better=int((even > 0).sum()),
        worse=int((even < 0).sum()),
        equal=int((even == 0).sum()),
    )


def compare_unpaired(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare means by Welch's test, for rows whose runs have nothing in common."""
    x, y = checked(first), checked(second)
    spread = float(x.std(ddof=1)) + float(y.std(ddof=1)) if min(len(x), len(y)) > 1 else 0.0
    found = scipy.stats.ttest_ind(x, y, equal_var=False) if spread > 0 else None
    interval = found.confidence_interval(0.95) if found is not None else None
    return Comparison(
        kind="welch",
        n=(len(x), len(y)),
        difference=float(x.mean() - y.mean()),
        interval=None if interval is None else (float(interval.low), float(interval.high)),
        p=None if found is None else float(found.pvalue),
        smallest_p=None,
        effect=_hedges(x, y) if spread > 0 else None,
        better=0,
        worse=0,
        equal=0,
    )


def smallest_p(pairs: int) -> float:
    """Return the smallest p of a two-sided test of signed ranks, in which all signs are alike."""
    return min(1.0, 2.0 ** (1 - pairs))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return the p values of a table, adjusted for their number: none smaller than before, in the same order."""
    known = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[i] = largest
    return adjusted


def _evened(x: Values, y: Values) -> Values:
    """Return differences in units of the values' size, without the last digits.

    2.51 - 2.41 and 3.51 - 3.41 are the same difference; rounding that breaks such a tie is not to be ranked.
    """
    size = float(np.median(np.maximum(np.abs(x), np.abs(y)))) or 1.0
    return np.round((x - y) / size, _DECIMALS)


def _signed_ranks(moved: Values) -> float:
    """Return p exactly where it can be counted; with ties over all possible signs, or many of them."""
    if not len(moved):
        return 1.0
    sizes = np.abs(moved)
    method: Literal["exact", "approx"] | scipy.stats.PermutationMethod
    if len(np.unique(sizes)) == len(sizes):
        method = "exact" if len(moved) <= _LARGEST_EXACT else "approx"
    else:
        method = scipy.stats.PermutationMethod(n_resamples=RESAMPLES, rng=_SEED)
    return float(scipy.stats.wilcoxon(moved, method=method).pvalue)


def _rank_biserial(moved: Values) -> float | None:
    if not len(moved):
        return 0.0
    ranks = scipy.stats.rankdata(np.abs(moved))
    return float((ranks * np.sign(moved)).sum() / ranks.sum())


def _hedges(x: Values, y: Values) -> float:
    freedom = len(x) + len(y) - 2
    pooled = math.sqrt(((len(x) - 1) * float(x.var(ddof=1)) + (len(y) - 1) * float(y.var(ddof=1))) / freedom)
    return float((x.mean() - y.mean()) / pooled * (1 - 3 / (4 * freedom - 1)))
