"""Two rows of a table: is the difference between them too small to matter?

That a difference is not shown does not say that there is none. To show that it is small is a test of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used: most commands need none

from smallgroup.statistics.summary import checked

CONFIDENCE = 0.90
"""Of the interval that lies within the margin exactly where both one-sided tests reject at 5 %."""


@dataclass(frozen=True)
class Equivalence:
    """The mean of the paired differences, the first row minus the second, beside a margin."""

    margin: float
    """The smallest difference that matters, given before the runs."""
    n: int
    difference: float
    interval: tuple[float, float] | None
    """90 % by Student's t; None of one pair."""
    p: float | None
    """The larger one of both one-sided tests; None of one pair."""


def equivalent_paired(first: Mapping[int, float], second: Mapping[int, float], margin: float) -> Equivalence:
    """Run two one-sided t-tests (TOST) over the seeds that both rows have.

    One has the null hypothesis that the mean difference is at most -margin, the other that it is at least margin. Where
    both are rejected, the mean difference lies within the margin.
    """
    if not margin > 0:
        raise ValueError(f"a margin must be above 0, but got {margin:g}")
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        raise ValueError("paired rows must have a seed in common, but they have none")
    d = checked([first[seed] - second[seed] for seed in seeds])
    n, mean = len(d), float(d.mean())
    if n == 1:
        return Equivalence(margin, n, mean, None, None)
    error = float(d.std(ddof=1) / np.sqrt(n))
    if error == 0:  # all differences are the same: there is no doubt on which side they lie
        return Equivalence(margin, n, mean, (mean, mean), 0.0 if abs(mean) < margin else 1.0)
    t = scipy.stats.t(n - 1)
    reach = float(t.ppf((1 + CONFIDENCE) / 2)) * error
    p = max(float(t.sf((mean + margin) / error)), float(t.cdf((mean - margin) / error)))
    return Equivalence(margin, n, mean, (mean - reach, mean + reach), p)
