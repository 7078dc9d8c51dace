"""Calibration: whether a model is right as often as the probabilities of its answers say."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

BINS = 15
"""Bins of equal width between probability 0 and 1, as Guo et al. (2017) take them."""


@dataclass(frozen=True)
class Bin:
    """The images whose answer has a probability in (low, high]."""

    low: float
    high: float
    images: int
    confidence: float | None
    """Mean probability of their answers; None: there are no images."""
    accuracy: float | None
    """Share of them that is right."""

    def to_dict(self) -> dict[str, float | int | None]:
        """Return plain values, as `--json` prints them."""
        return asdict(self)


def reliability(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[Bin]:
    """Sort answers into bins of equal width by their probability."""
    inside: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for confidence, is_right in zip(confidences, right, strict=True):
        # A probability of exactly k / bins belongs to the bin below: bins are open on the left.
        place = next((k for k in range(bins) if confidence <= (k + 1) / bins), bins - 1)
        inside[place].append((confidence, is_right))
    found = []
    for k, answers in enumerate(inside):
        n = len(answers)
        mean = sum(confidence for confidence, _ in answers) / n if n else None
        share = sum(is_right for _, is_right in answers) / n if n else None
        found.append(Bin(k / bins, (k + 1) / bins, n, mean, share))
    return found


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error in percentage points.

    ECE = sum over bins b of n_b / n * |accuracy(b) - confidence(b)|, times 100.
    """
    total = sum(one.images for one in bins)
    return 100 * sum(
        one.images / total * abs(one.accuracy - one.confidence)
        for one in bins
        if one.accuracy is not None and one.confidence is not None
    )
