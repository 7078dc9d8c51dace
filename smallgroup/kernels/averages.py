"""Running averages of batch norms that a fast path computes: they move as torch moves them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from smallgroup.kernels.terms import Convolution, check_values


@torch.no_grad()
def move_averages(layers: Sequence[Convolution], statistics: Sequence[Tensor], y: Tensor) -> None:
    """Check that the layers' norms can be taken, and move their running averages, if they keep any, as torch does.

    y is one of the results, which are of one size; statistics are those without a bias.
    """
    check_values(y)
    kept = [
        _Averages(norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.momentum, layer.bias, found)
        for layer, found in zip(layers, statistics, strict=True)
        if (norm := layer.norm).training
        and norm.running_mean is not None
        and norm.running_var is not None
        and norm.num_batches_tracked is not None
    ]
    if not kept:
        return
    count = y.numel() / y.shape[1]
    torch._foreach_add_([each.batches for each in kept], 1)
    for rate in {each.rate for each in kept}:
        these = [each for each in kept if each.rate == rate]
        means = [each.found[0] if each.bias is None else each.found[0] + each.bias for each in these]
        variances = torch._foreach_mul([each.found[2] for each in these], count / (count - 1))
        torch._foreach_lerp_([each.mean for each in these], means, rate)
        torch._foreach_lerp_([each.variance for each in these], variances, rate)


class _Averages(NamedTuple):
    """Running averages of a norm, and what they move toward."""

    mean: Tensor
    variance: Tensor
    batches: Tensor
    momentum: float | None
    bias: Tensor | None
    found: Tensor

    @property
    def rate(self) -> float:
        """How far they move; without momentum they are means over all batches."""
        return self.momentum if self.momentum is not None else 1.0 / float(self.batches)
