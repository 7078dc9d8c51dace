"""Mean and deviation of images per channel, out of whole numbers: the same on every machine."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

DIGITS = 4
"""Decimal places that are kept: finer than a hundredth of a gray level."""

Statistics = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation per channel, of values in 0..1."""


def statistics_of_sums(rows: Iterable[Sequence[int]], pixels: int, channels: int) -> Statistics:
    """Return the statistics of images, each given by its sums (see `decoding.sums_of`) over so many pixels.

    A gray image among colored ones has the same values in all channels.
    """
    totals, count = [0] * (2 * channels), 0
    for row in rows:
        whole = row if len(row) == 2 * channels else list(row) * channels
        totals = [total + value for total, value in zip(totals, whole, strict=True)]
        count += pixels
    if not count:
        return (0.0,) * channels, (1.0,) * channels
    moments = zip(totals[::2], totals[1::2], strict=True)
    mean, std = zip(*(_mean_and_deviation(total, squares, count) for total, squares in moments), strict=True)
    return mean, std


def statistics_of(pixels: Tensor) -> Statistics:
    """Return the statistics of images in memory, uint8 [n, c, h, w]."""
    return statistics_of_sums(sums_of_each(pixels), pixels.shape[2] * pixels.shape[3], pixels.shape[1])


def sums_of_each(pixels: Tensor) -> list[list[int]]:
    """Return for each of some images, uint8 [n, c, h, w], its sum and sum of squares, channel by channel."""
    values = pixels.to(torch.int64)
    found: list[list[int]] = torch.stack([values.sum((2, 3)), values.square().sum((2, 3))], 2).flatten(1).tolist()
    return found


def _mean_and_deviation(total: int, squares: int, count: int) -> tuple[float, float]:
    """Return both for values 0..255, scaled to 0..1; a channel that never changes is not scaled."""
    mean = total / (255 * count)
    deviation = math.sqrt(count * squares - total * total) / (255 * count)
    return round(mean, DIGITS), round(deviation, DIGITS) or 1.0
