"""The moving average of a network's weights: what is tested and kept where a training asks for it."""

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

WARMUP = 10
"""The average of few steps forgets faster: after n steps the decay is at most (1 + n) / (WARMUP + n)."""


Network = TypeVar("Network", bound=nn.Module)


class MovingAverage(Generic[Network]):
    """A copy of a network whose weights and running statistics follow those of the network, exponentially averaged."""

    def __init__(self, network: Network, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.network: Network = copy.deepcopy(network)
        self.network.eval().requires_grad_(requires_grad=False)
        pairs = list(zip(*(_tensors(one) for one in (self.network, network)), strict=True))
        self._averaged = [pair for pair in pairs if pair[0].is_floating_point()]
        self._counts = [pair for pair in pairs if not pair[0].is_floating_point()]

    @torch.no_grad()
    def follow(self) -> None:
        """Move a part of the way to the network as it is now."""
        decay = min(self.decay, (1 + self.steps) / (WARMUP + self.steps))
        own, other = [pair[0] for pair in self._averaged], [pair[1] for pair in self._averaged]
        torch._foreach_lerp_(own, other, 1 - decay)
        for kept, count in self._counts:
            kept.copy_(count)
        self.steps += 1


def _tensors(network: nn.Module) -> list[Tensor]:
    """Return weights and running statistics by name."""
    return [tensor.detach() for tensor in (*network.parameters(), *network.buffers())]
