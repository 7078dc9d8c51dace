"""How long a pass through a network takes, for what is reckoned before anything is begun."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch
from torch import Tensor

from smallgroup.runtime.device import wait_for

PassTime = Callable[[float], float]
"""Seconds of a pass with its way back, by the number of images."""
FORWARD = 1 / 3
"""The share of a pass in one with its way back."""
_FEW, _MORE = 2, 8
"""Images of the passes that are measured."""
_PATIENCE = 5.0
"""Seconds that are spent on measuring, if more than one time is to be taken."""


def pass_time(logits_of: Callable[[Tensor], Tensor], weights: Sequence[Tensor], image: Tensor) -> PassTime:
    """Return the seconds of a forward and backward pass, by the number of images."""

    def take(images: int) -> None:
        with torch.enable_grad():
            loss = logits_of(image.expand(images, *image.shape).contiguous()).logsumexp(dim=-1).sum()
            torch.autograd.grad(loss, list(weights), allow_unused=True)
        wait_for(image.device)

    # What an image costs, and what a pass costs whatever is in it.
    few, more = typical_time(partial(take, _FEW)), typical_time(partial(take, _MORE))
    each = max(0.0, more - few) / (_MORE - _FEW)
    return lambda images: max(0.0, few - _FEW * each) + images * each


def typical_time(take: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> float:
    """Return the median time of three, or of fewer if they are long; the first is a warm-up where it is short."""
    times = [_seconds(take, clock)]
    while len(times) < 4 and sum(times) < _PATIENCE:
        times.append(_seconds(take, clock))
    return median(times[1:] or times)


def _seconds(take: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    take()
    return clock() - start
