"""How big a network is."""

import copy

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def parameters(module: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(parameter.numel() for parameter in module.parameters())


def multiply_adds(module: nn.Module, size: int | tuple[int, int], image_channels: int = 3) -> int:
    """Multiply-adds of the convolutions and linear layers for one image of `size`, as papers on this space count.

    Nothing is computed: a copy without memory, on the meta device, is asked for its shapes.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 1:
        raise ValueError(f"size of an image must be at least 1, but got {height}x{width}")
    shadow = copy.deepcopy(module).to("meta").eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        shadow(torch.empty(1, image_channels, height, width, device="meta"))
    # The counter takes a multiplication and an addition for two, and knows matrix products and convolutions only.
    return int(counter.get_total_flops()) // 2
