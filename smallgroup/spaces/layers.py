"""Layers that supernets and derived networks share, in the style of either."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Style:
    """How the same operation is built while searching and in the network that is trained afterwards."""

    affine: bool
    """Whether the batch norms of a cell have a scale and a shift."""
    running_statistics: bool
    """Whether batch norms keep averages for the time after training, or normalise each batch by itself always."""
    norm_after_pool: bool
    """Whether pooling is followed by a batch norm, so that no operation wins by its scale."""


SEARCH = Style(affine=False, running_statistics=False, norm_after_pool=True)
"""No buffers: a supernet is a pure function of its weights, and probes of it leave no trace."""
FULL = Style(affine=True, running_statistics=True, norm_after_pool=False)


def batch_norm(channels: int, style: Style, *, affine: bool | None = None) -> nn.BatchNorm2d:
    """A batch norm in the given style; stems have scale and shift in every style."""
    affine = style.affine if affine is None else affine
    return nn.BatchNorm2d(channels, affine=affine, track_running_stats=style.running_statistics)


def relu_conv_norm(
    inputs: int, outputs: int, style: Style, *, kernel: int = 1, stride: int = 1, bias: bool = False
) -> nn.Sequential:
    """ReLU, convolution of odd kernel that keeps the size (or halves it), batch norm."""
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=bias),
        batch_norm(outputs, style),
    )


class FactorizedReduce(nn.Module):
    """Half the size without losing pixels: two strided 1x1 convolutions, one of them on the image shifted by one.

    The pixels are picked first and convolved without a stride: the same result, and some torch builds write past the
    end of their memory in the weight gradient of a strided 1x1 convolution in the channels_last layout.
    """

    def __init__(self, inputs: int, outputs: int, style: Style) -> None:
        super().__init__()
        if outputs % 2:
            raise ValueError(f"channels must be even where a skip connection halves the size, but got {outputs}")
        self.relu = nn.ReLU()
        self.even = nn.Conv2d(inputs, outputs // 2, 1, bias=False)
        self.odd = nn.Conv2d(inputs, outputs // 2, 1, bias=False)
        self.norm = batch_norm(outputs, style)

    def forward(self, inputs: Tensor) -> Tensor:
        """[n, c, h, w] to [n, outputs, ceil(h / 2), ceil(w / 2)]."""
        x: Tensor = self.relu(inputs)
        height, width = x.shape[-2:]
        # A row or column of zeros stands in where an odd size leaves the shifted half one short.
        shifted = nn.functional.pad(x[..., 1::2, 1::2], (0, width % 2, 0, height % 2))
        normed: Tensor = self.norm(torch.cat([self.even(x[..., ::2, ::2]), self.odd(shifted)], dim=1))
        return normed


class Zero(nn.Module):
    """The operation `none`: nothing gets through."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, inputs: Tensor) -> Tensor:
        """Zeros of the size the other operations of the edge give."""
        return torch.zeros_like(inputs[..., :: self.stride, :: self.stride])
