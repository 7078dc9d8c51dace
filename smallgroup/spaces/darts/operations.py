"""The operations of the DARTS space, and those of the hand-made and evolved cells written in its notation."""

from collections.abc import Callable
from functools import partial

from torch import nn

from smallgroup.spaces.layers import Convolutions, FactorizedReduce, NoiseLayer, Pool, Style, Zero, batch_norm


def build(name: str, channels: int, stride: int, style: Style) -> nn.Module:
    """Build an operation from `channels` to `channels` that keeps the size (stride 1) or halves it (stride 2)."""
    return BUILDERS[name](channels, stride, style)


def _skip(channels: int, stride: int, style: Style) -> nn.Module:
    return nn.Identity() if stride == 1 else FactorizedReduce(channels, channels, style)


def _depthwise(channels: int, stride: int, style: Style, *, kernel: int, dilation: int = 1) -> list[nn.Module]:
    padding = dilation * (kernel // 2)
    return [
        nn.ReLU(),
        nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups=channels, bias=False),
        nn.Conv2d(channels, channels, 1, bias=False),
        batch_norm(channels, style),
    ]


def _separable(kernel: int) -> "Builder":
    def build_it(channels: int, stride: int, style: Style) -> nn.Module:
        first = _depthwise(channels, stride, style, kernel=kernel)
        return Convolutions(*first, *_depthwise(channels, 1, style, kernel=kernel))

    return build_it


def _dilated(kernel: int) -> "Builder":
    def build_it(channels: int, stride: int, style: Style) -> nn.Module:
        return Convolutions(*_depthwise(channels, stride, style, kernel=kernel, dilation=2))

    return build_it


def _conv_7x1_1x7(channels: int, stride: int, style: Style) -> nn.Module:
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(channels, channels, (1, 7), stride=(1, stride), padding=(0, 3), bias=False),
        nn.Conv2d(channels, channels, (7, 1), stride=(stride, 1), padding=(3, 0), bias=False),
        batch_norm(channels, style),
    )


Builder = Callable[[int, int, Style], nn.Module]

BUILDERS: dict[str, Builder] = {
    "none": lambda _channels, stride, _style: Zero(stride),
    "noise": lambda _channels, stride, _style: NoiseLayer(stride),
    "max_pool_3x3": partial(Pool, average=False),
    "avg_pool_3x3": partial(Pool, average=True),
    "skip_connect": _skip,
    "sep_conv_3x3": _separable(3),
    "sep_conv_5x5": _separable(5),
    "sep_conv_7x7": _separable(7),
    "dil_conv_3x3": _dilated(3),
    "dil_conv_5x5": _dilated(5),
    "conv_7x1_1x7": _conv_7x1_1x7,
}
"""How each of `names.KNOWN` is built, `none`, and `noise`, which parts of the space have."""
