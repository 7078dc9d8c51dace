"""What surrounds the cells of NAS-Bench-201, in the supernet and in the full network."""

from dataclasses import replace
from typing import cast

from torch import Tensor, nn

from smallgroup.kernels import blocks_for
from smallgroup.spaces.layers import SEARCH, Convolutions, Style, batch_norm, by_batch, relu_conv_norm


def widths(channels: int, stages: int = 3) -> tuple[int, ...]:
    """Return the channels of the stages, of which the benchmark has three."""
    return tuple(channels * 2**stage for stage in range(stages))


class PlainStem(nn.Sequential):
    """The first layers of a supernet: a 3x3 convolution and its batch norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        super().__init__(layer, batch_norm(outputs, SEARCH, affine=True))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return normalized images of as many channels as the first cell has."""
        blocks = blocks_for(inputs)
        if blocks is None:
            plain: Tensor = super().forward(inputs)  # type: ignore[no-untyped-call]
            return plain
        return blocks.stem(inputs, cast(nn.Conv2d, self[0]), cast(nn.BatchNorm2d, self[1]))


class Head(nn.Sequential):
    """What a supernet makes of its last cell: batch norm, ReLU and the mean of all pixels."""

    def __init__(self, channels: int) -> None:
        super().__init__(batch_norm(channels, SEARCH, affine=True), nn.ReLU())

    def forward(self, inputs: Tensor) -> Tensor:
        """[n, c, h, w] to [n, c]."""
        blocks = blocks_for(inputs)
        if blocks is None:
            plain: Tensor = super().forward(inputs)  # type: ignore[no-untyped-call]
            return plain.mean(dim=(2, 3))
        return blocks.head(inputs, cast(nn.BatchNorm2d, self[0]))


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
        body = [cast(Convolutions, part) for part in self.body]
        blocks = blocks_for(inputs) if by_batch(cast(nn.BatchNorm2d, part[-1]) for part in body) else None
        if blocks is not None:
            whole = blocks.reduction(inputs, [part.stage(0) for part in body], cast(nn.Conv2d, self.shortcut[1]))
            if whole is not None:
                return whole
        total: Tensor = self.shortcut(inputs) + self.body(inputs)
        return total


class PoolReduction(nn.Sequential):
    """Half the size, twice the channels: a convolution at full size, then max pooling.

    Not the benchmark's: for networks that are trained for few epochs.
    """

    def __init__(self, inputs: int, outputs: int, style: Style) -> None:
        # Rounding up: odd sizes keep their last row and column.
        super().__init__(relu_conv_norm(inputs, outputs, style, kernel=3), nn.MaxPool2d(2, ceil_mode=True))
