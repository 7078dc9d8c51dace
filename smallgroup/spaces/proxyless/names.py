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
WIDTHS = (24, 40, 80, 96, 192, 320)
"""By stage, channels for 16 in the first block; the stem has 32 then, and the last convolution 1280."""
FIRST = 16
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


def layers(channels: int, form: str) -> list[Layer]:
    """Return the layers for so many channels of the first block."""
    found, inputs = [], channels
    for blocks, width, first in zip(BLOCKS, WIDTHS, STRIDES[form][1], strict=True):
        for block in range(blocks):
            found.append(Layer(inputs, width * channels // FIRST, first if block == 0 else 1))
            inputs = found[-1].outputs
    return found


def stem_channels(channels: int) -> int:
    """Return the channels of the stem."""
    return 32 * channels // FIRST


def head_channels(channels: int) -> int:
    """Return the channels of the last convolution."""
    return 1280 * channels // FIRST


def form_for(size: int) -> str:
    """Return the form for images of a size."""
    return "small" if size < 32 else "cifar" if size < 128 else "imagenet"
