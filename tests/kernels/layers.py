"""Layers and images of any size for the tests of the paths."""

import torch
from torch import Tensor, nn

from smallgroup.spaces.darts import operations
from smallgroup.spaces.layers import FULL, SEARCH, Convolutions, FactorizedReduce, Pool, Style, relu_conv_norm

SIZES = [(2, 16, 8, 8), (3, 5, 7, 9), (1, 8, 6, 5), (2, 36, 5, 4), (4, 1, 6, 6), (2, 17, 3, 11), (2, 8, 2, 2)]
"""Batch, channels, height, width: odd sizes, a batch of one, channels that are no multiple of a vector."""


def images(size: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random images of moderate size, in torch's layout."""
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def layer(name: str, channels: int, stride: int, style: Style, dtype: torch.dtype = torch.float64) -> nn.Module:
    """An operation or layer of either space with weights that are always the same."""
    made: nn.Module
    if name.startswith("relu_conv"):
        made = relu_conv_norm(channels, channels + 3, style, kernel=int(name[-1]), stride=stride, bias=True)
    elif name == "factorized":
        made = FactorizedReduce(channels, 6, style)
    else:
        made = operations.build(name, channels, stride, style)
    generator = torch.Generator().manual_seed(1)
    made = made.to(dtype)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return made


__all__ = ["FULL", "SEARCH", "SIZES", "Convolutions", "Pool", "images", "layer"]
