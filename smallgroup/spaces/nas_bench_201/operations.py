"""The five operations of NAS-Bench-201, as modules."""

from dataclasses import replace

from torch import nn

from smallgroup.spaces.layers import Pool, Style, Zero, relu_conv_norm


def build(name: str, channels: int, style: Style) -> nn.Module:
    """Build an operation that keeps channels and size. Pooling has no batch norm here, in any style."""
    # The benchmark's convolutions have a bias where the batch norm behind them has no shift of its own.
    bias = not style.affine
    match name:
        case "none":
            return Zero(1)
        case "skip_connect":
            return nn.Identity()
        case "nor_conv_1x1":
            return relu_conv_norm(channels, channels, style, kernel=1, bias=bias)
        case "nor_conv_3x3":
            return relu_conv_norm(channels, channels, style, kernel=3, bias=bias)
        case "avg_pool_3x3":
            return Pool(channels, 1, replace(style, norm_after_pool=False), average=True)
        case _:
            raise ValueError(f"unknown operation {name!r}")
