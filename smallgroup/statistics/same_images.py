"""Two networks on the same images: is one better, by how much, and could it be luck?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import scipy  # its parts are loaded when they are used: most commands need none

Z = 1.959963984540054
"""95 % of a normal distribution lie within so many deviations."""


@dataclass(frozen=True)
class ImageComparison:
    """Errors of the first network minus those of the second, in points; below 0 the first is better."""

    images: int
    difference: float
    interval: tuple[float, float]
    """95 %, over the images: the spread between trainings with other seeds is not in it."""
    p: float
    """Two-sided, exact: only the images that one of the two gets wrong count."""

    @property
    def verdict(self) -> Literal["better", "worse", "not told apart"]:
        """What can be said of the first network."""
        low, high = self.interval
        return "better" if high < 0 else "worse" if low > 0 else "not told apart"


def compare_on_images(first_wrong: Sequence[bool], second_wrong: Sequence[bool]) -> ImageComparison:
    """Compare two networks by which of the same images each gets wrong.

    The interval is Agresti and Min's for paired proportions: Wald's after half a count is added to each of the four
    ways in which two networks can be right or wrong. The test is McNemar's, exact.
    """
    if len(first_wrong) != len(second_wrong) or not first_wrong:
        raise ValueError(
            f"networks are compared on the same images, but they have {len(first_wrong)} and {len(second_wrong)}"
        )
    pairs = list(zip(first_wrong, second_wrong, strict=True))
    only_first, only_second = pairs.count((True, False)), pairs.count((False, True))
    n, a, b = len(pairs) + 2, only_first + 0.5, only_second + 0.5
    middle, spread = (a - b) / n, Z * math.sqrt(a + b - (a - b) ** 2 / n) / n
    discordant = only_first + only_second
    p = float(scipy.stats.binomtest(only_first, discordant).pvalue) if discordant else 1.0
    difference = 100 * (only_first - only_second) / len(pairs)
    return ImageComparison(len(pairs), difference, (100 * (middle - spread), 100 * (middle + spread)), p)
