"""What surrounds the cells, in supernets and in derived networks: the stem, and where the size is halved."""

from torch import Tensor, nn

from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.spaces.darts.names import STEMS
from smallgroup.spaces.layers import Style, batch_norm


def reduction_cells(cells: int) -> frozenset[int]:
    """Return the indices of the two reduction cells, after one and two thirds of the stack.

    With fewer than three cells none would be left that is a normal one, and half of a genotype would mean nothing.
    """
    if cells < 3:
        raise ValueError(f"cells must be at least 3, so that normal and reduction cells occur, but got {cells}")
    return frozenset({cells // 3, 2 * cells // 3})


class Stem(nn.Module):
    """The stem, from an image to the inputs of the first cell. Its batch norms have scale and shift in every style."""

    channels: tuple[int, int]
    """Channels of the two outputs that the next cell takes."""
    reduction_before: bool
    """Whether the first output is twice the size of the second, as if a reduction cell had made the second."""

    def __init__(self, kind: str, image_channels: int, width: int, style: Style) -> None:
        super().__init__()
        check_choice("stem", kind, STEMS)
        check_counts(image_channels=image_channels, width=width)
        self.channels = (width, width)
        self.reduction_before = kind == "imagenet"
        self.second: nn.Module | None = None
        if kind != "imagenet":
            self.first = nn.Sequential(*_conv_norm(image_channels, width, 1, style))
            return
        if width % 2:
            raise ValueError(f"width of the imagenet stem must be even, but got {width}")
        half = width // 2
        self.first = nn.Sequential(
            *_conv_norm(image_channels, half, 2, style), nn.ReLU(), *_conv_norm(half, width, 2, style)
        )
        self.second = nn.Sequential(nn.ReLU(), *_conv_norm(width, width, 2, style))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two outputs that the first cell takes as those of cells before it."""
        first: Tensor = self.first(images)
        return first, first if self.second is None else self.second(first)


def build_stem(kind: str, image_channels: int, channels: int, style: Style, *, width: int | None = None) -> Stem:
    """Build the stem before cells of `channels` per node.

    Its width is three times that for `cifar` and the same otherwise, unless given: supernets for ImageNet have an
    `imagenet` stem three times as wide as their cells, the networks derived from them have not.
    """
    if width is None:
        width = 3 * channels if kind == "cifar" else channels
    return Stem(kind, image_channels, width, style)


def _conv_norm(inputs: int, outputs: int, stride: int, style: Style) -> tuple[nn.Module, nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return convolution, batch_norm(outputs, style, affine=True)
