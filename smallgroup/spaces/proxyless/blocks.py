"""The blocks of the chain, and what stands before and behind it."""

from torch import nn

from smallgroup.spaces.layers import Style, Zero, batch_norm
from smallgroup.spaces.proxyless.names import NONE, SEARCHED, STRIDES, head_channels, stem_channels


def build(name: str, inputs: int, outputs: int, stride: int, style: Style) -> nn.Module:
    """Return an operation by its name; the shortcut around it is not part of it."""
    if name == NONE:
        return Zero(stride)
    expansion, kernel = int(name.removeprefix("mbconv")[0]), int(name[-1])
    return inverted_residual(inputs, outputs, stride, style, kernel=kernel, expansion=expansion)


def inverted_residual(
    inputs: int, outputs: int, stride: int, style: Style, *, kernel: int, expansion: int
) -> nn.Sequential:
    """Build a 1x1 convolution to `expansion` times the channels (none for 1), a depthwise filter, a 1x1 convolution."""
    wide = expansion * inputs
    widening = [] if expansion == 1 else conv_norm_relu(inputs, wide, 1, 1, style)
    filtering = conv_norm_relu(wide, wide, kernel, stride, style, groups=wide)
    return nn.Sequential(*widening, *filtering, nn.Conv2d(wide, outputs, 1, bias=False), batch_norm(outputs, style))


def conv_norm_relu(
    inputs: int, outputs: int, kernel: int, stride: int, style: Style, *, groups: int = 1, affine: bool | None = None
) -> list[nn.Module]:
    """Return a convolution that keeps the size or halves it, a batch norm and a ReLU that ends at 6."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, batch_norm(outputs, style, affine=affine), nn.ReLU6()]


def build_stem(image_channels: int, channels: int, form: str, style: Style, widths: str = SEARCHED) -> nn.Sequential:
    """Return the stem and the first block, in which nothing is chosen."""
    width = stem_channels(channels, widths)
    first = inverted_residual(width, channels, 1, style, kernel=3, expansion=1)
    return nn.Sequential(*conv_norm_relu(image_channels, width, 3, STRIDES[form][0], style, affine=True), *first)


def build_head(inputs: int, channels: int, style: Style, widths: str = SEARCHED) -> nn.Sequential:
    """Return the last 1x1 convolution, before the average over the image."""
    return nn.Sequential(*conv_norm_relu(inputs, head_channels(channels, widths), 1, 1, style, affine=True))
