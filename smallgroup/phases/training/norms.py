"""Batch norms by the images on all ranks: torch's `SyncBatchNorm` needs a GPU, this does not.

What is normalized is y = (x - mean) / sqrt(variance + eps) * scale + shift, with mean and variance of the images of all
ranks. Their sums travel by an all-reduce that has a derivative: the sum over the ranks of what comes back.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed, nn


@dataclass
class NormSharing:
    """The state that all synchronized norms of a network share."""

    group: distributed.ProcessGroup | None = None
    counts: bool = True
    """Whether the images that are passed count; a rank without images passes some for the company of the others."""


def synchronize(network: nn.Module, group: distributed.ProcessGroup | None = None) -> NormSharing:
    """Make all batch norms of a network take the statistics of all ranks while they train; every rank must call it."""
    shared = NormSharing(group)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            # It remains a BatchNorm2d: those who count or fold layers know it by its type.
            vars(layer)["forward"] = partial(_normalized, layer, shared)
    return shared


def _normalized(layer: nn.BatchNorm2d, shared: NormSharing, x: Tensor) -> Tensor:
    if not layer.training:
        return nn.BatchNorm2d.forward(layer, x)
    values = x.float()
    pixels = x.numel() // x.shape[1] if shared.counts else 0
    # In float64, in which the squares of a large mean cost the variance no digit of float32.
    own_variance, own_mean = (found.double() for found in torch.var_mean(values, dim=(0, 2, 3), correction=0))
    own = pixels * torch.cat([own_mean, own_variance + own_mean.square()])
    sums = _SumOverRanks.apply(torch.cat([own, own.new_tensor([pixels])]), shared.group)  # type: ignore[no-untyped-call]
    count = float(sums[-1].detach())
    mean, square = (sums[:-1] / count).view(2, -1)
    variance = (square - mean.square()).clamp(min=0).float()
    mean = mean.float()
    if layer.track_running_stats and layer.running_mean is not None and layer.running_var is not None:
        # Torch's default rate; the cumulative average that None means in torch is not computed here.
        momentum = 0.1 if layer.momentum is None else layer.momentum
        with torch.no_grad():
            layer.running_mean.lerp_(mean.detach(), momentum)
            layer.running_var.lerp_(variance.detach() * (count / max(1.0, count - 1)), momentum)
            if layer.num_batches_tracked is not None:
                layer.num_batches_tracked.add_(1)
    factor = (variance + layer.eps).rsqrt()
    if layer.affine:
        factor = factor * layer.weight
    shift = -mean * factor if not layer.affine else layer.bias - mean * factor
    found: Tensor = values * factor.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)
    return found.to(x.dtype)


class _SumOverRanks(torch.autograd.Function):
    """The sum over the ranks; the loss is a sum over the ranks too, and so is its derivative."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: distributed.ProcessGroup | None) -> Tensor:  # noqa: ANN401
        ctx.group, found = group, values.clone()
        distributed.all_reduce(found, group=group)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        found = gradient.clone()
        distributed.all_reduce(found, group=ctx.group)
        return found, None
