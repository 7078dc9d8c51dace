"""Augmentation as batched tensor code; every function is given its draws, so a slow reference can be given the same.

The order is that of the published CIFAR and ImageNet pipelines: a random part of the image, crop with a black border,
flip, colors (all on whole numbers 0..255), then normalize, then cutout (whose zeros are therefore the mean color).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from smallgroup.data.colors import draw_jitter, jitter
from smallgroup.data.decoding import DRAWS
from smallgroup.runtime import stream
from smallgroup.runtime.constants import numbers_on
from smallgroup.runtime.section import Section


class Augmentation(Section):
    """The augmentation of training images; `Augmentation.none()` does nothing."""

    smallest_area: float | None = Field(default=None, gt=0, le=1)
    """A random part of at least this share of the image is brought to full size (ImageNet: 0.08); None: the center."""
    crop_padding: int = Field(default=4, ge=0, le=256)
    """Black border in pixels, out of which a window of the image's size is cut at a random place; 0: no crop."""
    flip: bool = True
    """Mirror every second image, left to right."""
    color_jitter: bool = False
    """Brightness, contrast, saturation by 0.4 and hue by 0.2 at most, as in the ImageNet evaluation."""
    cutout: int = Field(default=0, ge=0, le=4096)
    """Side in pixels of the square that is blanked; 0: none."""

    @classmethod
    def none(cls) -> "Augmentation":
        """Return an augmentation that changes nothing, for validation passes and tests."""
        return cls(smallest_area=None, crop_padding=0, flip=False, color_jitter=False, cutout=0)

    def scaled(self, size: int, of: int) -> "Augmentation":
        """Return the augmentation for images of another size: pixels in proportion, rounded down; a border stays 1."""
        border = max(min(self.crop_padding, 1), self.crop_padding * size // of)
        return self.model_copy(update={"crop_padding": border, "cutout": self.cutout * size // of})


class Parts(NamedTuple):
    """Random parts of images, as numbers: where a part lies depends on the size of its image."""

    smallest: float
    draws: Tensor
    """Uniform numbers in float64, [n, DRAWS]."""


def draw_parts(augmentation: Augmentation, count: int, *key: int | str) -> Parts | None:
    """Return which part of each of `count` images is shown; None: the whole of it."""
    if augmentation.smallest_area is None:
        return None
    draws = torch.rand(count, DRAWS, dtype=torch.float64, generator=stream(*key, "part"))
    return Parts(augmentation.smallest_area, draws)


class Draws(NamedTuple):
    """The random numbers of a batch, a row per image; None for what is not done."""

    offsets: Tensor | None = None
    """[n, 2], top and left of the window that is cut out of the image with its border."""
    flipped: Tensor | None = None
    """[n], whether each image is mirrored."""
    factors: Tensor | None = None
    """[n, 4], of the colors, and the order in which they change:"""
    orders: Tensor | None = None
    centers: Tensor | None = None
    """[n, 2], row and column of the middle of the square that is blanked."""


def draw(augmentation: Augmentation, shape: tuple[int, int, int, int], *key: int | str) -> Draws:
    """Draw on the CPU what is done to a batch of this shape; the key says whose draws these are."""
    count, channels, height, width = shape
    offsets = flipped = factors = orders = centers = None
    if augmentation.crop_padding or augmentation.flip:
        high = 2 * augmentation.crop_padding + 1
        offsets = torch.randint(high, (count, 2), generator=stream(*key, "crop"))
        flipped = torch.rand(count, generator=stream(*key, "flip")) < (0.5 if augmentation.flip else 0.0)
    if augmentation.color_jitter:
        # The word is a part of the seed: spelled in another way, it would draw other numbers.
        factors, orders = draw_jitter(count, channels, stream(*key, "colours"))
    if augmentation.cutout:
        places = torch.rand(count, 2, dtype=torch.float64, generator=stream(*key, "cutout"))
        centers = (places * torch.tensor([height, width])).long()
    return Draws(offsets, flipped, factors, orders, centers)


def augment_pixels(pixels: Tensor, augmentation: Augmentation, draws: Draws) -> Tensor:
    """Crop, flip and colors of a batch [n, c, h, w] of uint8, on the device where pixels and draws are."""
    if draws.offsets is not None and draws.flipped is not None:
        pixels = crop_and_flip(pixels, draws.offsets, draws.flipped, augmentation.crop_padding)
    if draws.factors is not None and draws.orders is not None:
        pixels = jitter(pixels, draws.factors, draws.orders)
    return pixels


def crop_and_flip(pixels: Tensor, offsets: Tensor, flipped: Tensor, padding: int) -> Tensor:
    """Surround [n, c, h, w] by black, cut [h, w] at the offsets (top, left), mirror the marked ones: one gather."""
    count, channels, height, width = pixels.shape
    device = pixels.device
    rows = offsets[:, :1] + torch.arange(height, device=device)
    columns = offsets[:, 1:] + torch.arange(width, device=device)
    columns = torch.where(flipped[:, None], columns.flip(1), columns)
    places = rows[:, :, None] * (width + 2 * padding) + columns[:, None, :]
    padded = functional.pad(pixels, (padding,) * 4).flatten(2)
    return padded.gather(2, places.view(count, 1, -1).expand(-1, channels, -1)).view_as(pixels)


def normalize(pixels: Tensor, mean: Sequence[float], std: Sequence[float], dtype: torch.dtype) -> Tensor:
    """Return (pixels / 255 - mean) / std per channel.

    Three plain operations: fused into a multiply-add the last bit would depend on how threads share the batch.
    """
    shape = (1, -1, 1, 1)
    means = numbers_on(mean, dtype, pixels.device).view(shape)
    deviations = numbers_on(std, dtype, pixels.device).view(shape)
    return pixels.to(dtype).div_(255).sub_(means).div_(deviations)


def cutout(inputs: Tensor, centers: Tensor, length: int) -> Tensor:
    """Blank one square per image around its center (row, column), as far as it lies inside.

    As published the square reaches `length // 2` to each side, so an odd length is the next smaller even one.
    """
    height, width = inputs.shape[2:]
    device, reach = inputs.device, length // 2
    rows = torch.arange(height, device=device) - centers[:, :1]
    columns = torch.arange(width, device=device) - centers[:, 1:]
    hidden = ((rows >= -reach) & (rows < reach))[:, :, None] & ((columns >= -reach) & (columns < reach))[:, None, :]
    return inputs.masked_fill_(hidden[:, None], 0)
