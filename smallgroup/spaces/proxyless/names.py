"""What the chain is made of: its stages, the operations of its layers, and the strides for images of several sizes."""

from typing import NamedTuple

from smallgroup.spaces.kinds import Kind

NONE = "none"
"""The block is left out: its input is its output."""
KERNELS, EXPANSIONS = (3, 5, 7), (3, 6)
OPERATIONS = (NONE, *(f"mbconv{expansion}_{kernel}x{kernel}" for kernel in KERNELS for expansion in EXPANSIONS))
"""In the order of the architecture's columns; mbconv3_3x3 has a 3x3 filter on 3 times as many channels."""
BLOCKS = (4, 4, 4, 4, 4, 1)
"""By stage, how many layers choose."""


class Widths(NamedTuple):
    """Channels from the first layer to the last."""

    stem: int
    first: int
    """Channels of the first block, in which nothing is chosen."""
    stages: tuple[int, ...]
    last: int
    """Channels of the 1x1 convolution after the chain."""


SEARCHED = "search"
WIDTHS = {
    SEARCHED: Widths(32, 16, (24, 40, 80, 96, 192, 320), 1280),
    "cpu": Widths(40, 24, (32, 48, 88, 104, 216, 360), 1432),
    "gpu": Widths(40, 24, (32, 56, 112, 128, 256, 432), 1728),
    "mobile": Widths(32, 16, (32, 40, 80, 96, 192, 320), 1280),
    "mobile-14": Widths(48, 24, (40, 56, 112, 136, 256, 448), 1792),
}
"""Those of the paper's search, and of the networks that it released; other sizes are in proportion to `first`."""
FIRST = WIDTHS[SEARCHED].first
STRIDES = {
    "imagenet": (2, (2, 2, 2, 1, 2, 1)),
    "cifar": (1, (1, 2, 2, 1, 2, 1)),
    "small": (1, (1, 1, 2, 1, 2, 1)),
}
"""By form, those of the stem and of the first block of each stage. The paper has the first; the second leaves an eighth
of the image, the third a quarter."""
_FIRSTS = tuple(sum(BLOCKS[:stage]) for stage in range(len(BLOCKS)))
"""Layers that begin a stage. They change the number of channels, so that they cannot be left out."""
LAYERS = sum(BLOCKS)
KIND = Kind(
    "chain",
    tuple((layer, layer + 1) for layer in range(LAYERS)),
    OPERATIONS,
    "chain",
    tuple(OPERATIONS[1:] if layer in _FIRSTS else OPERATIONS for layer in range(LAYERS)),
)


class Layer(NamedTuple):
    """The sizes of a layer, whatever it chooses."""

    inputs: int
    outputs: int
    stride: int

    @property
    def shortcut(self) -> bool:
        """Whether the input is added to the output, and the layer may be left out."""
        return self.stride == 1 and self.inputs == self.outputs


def layers(channels: int, form: str, widths: str = SEARCHED) -> list[Layer]:
    """Return the layers for so many channels of the first block."""
    table, found, inputs = WIDTHS[widths], [], channels
    for blocks, width, first in zip(BLOCKS, table.stages, STRIDES[form][1], strict=True):
        for block in range(blocks):
            found.append(Layer(inputs, width * channels // table.first, first if block == 0 else 1))
            inputs = found[-1].outputs
    return found


def stem_channels(channels: int, widths: str = SEARCHED) -> int:
    """Return the channels of the stem."""
    return WIDTHS[widths].stem * channels // WIDTHS[widths].first


def head_channels(channels: int, widths: str = SEARCHED) -> int:
    """Return the channels of the last convolution."""
    return WIDTHS[widths].last * channels // WIDTHS[widths].first


def form_for(size: int) -> str:
    """Return the form for images of a size."""
    return "small" if size < 32 else "cifar" if size < 128 else "imagenet"
