"""What surrounds the cells of NAS-Bench-201, in the supernet and in the full network."""

from dataclasses import replace

from torch import Tensor, nn

from smallgroup.spaces.layers import Style, relu_conv_norm


def widths(channels: int, stages: int = 3) -> tuple[int, ...]:
    """Return the channels of the stages, of which the benchmark has three."""
    return tuple(channels * 2**stage for stage in range(stages))


class ResidualReduction(nn.Module):
    """Half the size, twice the channels: two convolutions beside an averaged and projected shortcut.

    Its batch norms have scale and shift in every style, as in the benchmark's own supernet. Its convolutions need no
    bias before them.
    """

    def __init__(self, inputs: int, outputs: int, style: Style) -> None:
        super().__init__()
        style = replace(style, affine=True)
        self.body = nn.Sequential(
            relu_conv_norm(inputs, outputs, style, kernel=3, stride=2),
            relu_conv_norm(outputs, outputs, style, kernel=3),
        )
        # Rounding up, as the strided convolution does: odd sizes keep their last row and column.
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, stride=2, ceil_mode=True), nn.Conv2d(inputs, outputs, 1, bias=False)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the sum of the residual path and the shortcut."""
        total: Tensor = self.shortcut(inputs) + self.body(inputs)
        return total


class PoolReduction(nn.Sequential):
    """Half the size, twice the channels: a convolution at full size, then max pooling.

    Not the benchmark's: for networks that are trained for few epochs.
    """

    def __init__(self, inputs: int, outputs: int, style: Style) -> None:
        # Rounding up: odd sizes keep their last row and column.
        super().__init__(relu_conv_norm(inputs, outputs, style, kernel=3), nn.MaxPool2d(2, ceil_mode=True))
