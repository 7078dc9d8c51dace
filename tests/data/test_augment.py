"""Batched augmentation against a slow reference that is given the same draws, and against what theory says of it."""

import pytest
import torch
from torch import Tensor

from smallgroup.data import Augmentation, augment
from smallgroup.data.augment import crop_and_flip, cutout, draw, draw_parts, normalize
from smallgroup.runtime import stream
from tests.data.makers import noise

CIFAR = Augmentation(crop_padding=4, flip=True)


def augment_pixels(images: Tensor, settings: Augmentation, *key: int | str) -> Tensor:
    return augment.augment_pixels(images, settings, draw(settings, _shape(images), *key))


def cut(pixels: Tensor, settings: Augmentation, key: int, *, mean: float, std: float) -> Tensor:
    centers = draw(settings, _shape(pixels), key).centers
    assert centers is not None
    return cutout(normalize(pixels, (mean,), (std,), torch.float64), centers, settings.cutout)


def _shape(images: Tensor) -> tuple[int, int, int, int]:
    count, channels, height, width = images.shape
    return count, channels, height, width


SHAPES = [(7, 3, 32, 32), (5, 1, 8, 8), (4, 2, 5, 9), (1, 3, 1, 1)]


def slow_crop(image: Tensor, top: int, left: int, flip: bool, padding: int) -> Tensor:
    """One pixel at a time, as a definition."""
    channels, height, width = image.shape
    result = torch.zeros_like(image)
    for c in range(channels):
        for row in range(height):
            for column in range(width):
                y, x = row + top - padding, column + left - padding
                if 0 <= y < height and 0 <= x < width:
                    result[c, row, width - 1 - column if flip else column] = image[c, y, x]
    return result


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_crop_and_flip_are_exact(shape: tuple[int, ...], padding: int) -> None:
    images = noise(*shape)
    offsets = torch.randint(2 * padding + 1, (shape[0], 2), generator=stream("offsets", padding))
    flipped = torch.rand(shape[0], generator=stream("flips", padding)) < 0.5
    expected = [
        slow_crop(image, int(top), int(left), bool(flip), padding)
        for image, (top, left), flip in zip(images, offsets, flipped, strict=True)
    ]
    before = images.clone()
    assert torch.equal(crop_and_flip(images, offsets, flipped, padding), torch.stack(expected))
    assert torch.equal(images, before)


def slow_cutout(image: Tensor, row: int, column: int, length: int) -> Tensor:
    result = image.clone()
    for y in range(row - length // 2, row + length // 2):
        for x in range(column - length // 2, column + length // 2):
            if 0 <= y < image.shape[1] and 0 <= x < image.shape[2]:
                result[:, y, x] = 0
    return result


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("length", [2, 5, 16])
def test_cutout_is_exact(shape: tuple[int, ...], length: int) -> None:
    images = torch.rand(shape, generator=stream("images")) - 0.5
    rows = torch.randint(shape[2], (shape[0],), generator=stream("rows"))
    columns = torch.randint(shape[3], (shape[0],), generator=stream("columns"))
    expected = [
        slow_cutout(image, int(row), int(column), length)
        for image, row, column in zip(images, rows, columns, strict=True)
    ]
    assert torch.equal(cutout(images.clone(), torch.stack([rows, columns], 1), length), torch.stack(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalization(dtype: torch.dtype) -> None:
    images = noise(4, 3, 5, 5)
    found = normalize(images, (0.1, 0.5, 0.9), (0.2, 1.0, 3.0), dtype)
    assert found.dtype == dtype
    for channel, (mean, std) in enumerate([(0.1, 0.2), (0.5, 1.0), (0.9, 3.0)]):
        torch.testing.assert_close(found[:, channel].double(), (images[:, channel].double() / 255 - mean) / std)


def test_borders_are_black_and_holes_have_the_mean_color() -> None:
    """The published order: the crop pads before normalization, cutout blanks after it."""
    white = torch.full((500, 1, 8, 8), 255, dtype=torch.uint8)
    settings = Augmentation(crop_padding=2, flip=False, cutout=4)
    found = cut(augment_pixels(white, settings, 0), settings, 0, mean=0.25, std=0.5)
    assert set(found.flatten().tolist()) == {-0.5, 0.0, 1.5}


def test_crops_and_flips_are_as_frequent_as_they_should_be() -> None:
    """Every pixel has its own value, so that the augmented image tells what was done to it."""
    count = 40_000
    coordinates = torch.arange(1, 65, dtype=torch.uint8).view(1, 1, 8, 8).expand(count, -1, -1, -1)
    found = augment_pixels(coordinates, Augmentation(crop_padding=2), 7, "x")[:, 0].long()
    middle, beside = found[:, 4, 4] - 1, found[:, 4, 3] - 1
    flipped = beside > middle
    assert abs(flipped.double().mean() - 0.5) < 4 * 0.5 / count**0.5
    top = middle // 8 - 4 + 2
    left = torch.where(flipped, middle % 8 - 3, middle % 8 - 4) + 2
    table = torch.bincount((top * 5 + left) * 2 + flipped, minlength=50).double()
    assert table.numel() == 50
    # Chi-squared with 49 degrees of freedom: above 94.6 once in 10,000.
    expected = count / 50
    assert ((table - expected) ** 2 / expected).sum() < 94.6


def test_holes_have_the_area_theory_says() -> None:
    """A reach of r to each side keeps, on average over centers in 0..n-1, 2r - r(r-1)/2n - r(r+1)/2n = 2r - r^2/n."""
    count, size, length = 20_000, 32, 16
    ones = torch.full((count, 1, size, size), 255, dtype=torch.uint8)
    settings = Augmentation(crop_padding=0, flip=False, cutout=length)
    found = cut(ones, settings, 3, mean=0.0, std=1.0)
    holes = (found == 0).double()[:, 0]
    reach = length // 2
    side = 2 * reach - reach**2 / size
    assert abs(holes.sum((1, 2)).mean() - side**2) < 1.5
    # The chance that a pixel is hidden is the product of its row's and its column's: 16/32 in the middle, 8/32 outside.
    assert abs(holes[:, 16, 16].mean() - 0.25) < 0.02
    assert abs(holes[:, 0, 0].mean() - (reach + 1) / size * (reach + 1) / size) < 0.02


def test_the_key_alone_decides_and_steps_do_not_disturb_one_another() -> None:
    images = noise(16, 3, 32, 32)
    settings = Augmentation(cutout=8, color_jitter=True)
    first = augment_pixels(images, settings, 1, "train", 5)
    assert torch.equal(first, augment_pixels(images, settings, 1, "train", 5))
    for key in [(2, "train", 5), (1, "other", 5), (1, "train", 6)]:
        assert not torch.equal(first, augment_pixels(images, settings, *key))
    # Switching one part off leaves the draws of the others as they were.
    plain = augment_pixels(images, Augmentation(flip=False), 1, "train", 5)
    both = augment_pixels(images, CIFAR, 1, "train", 5)
    same = (both == plain).flatten(1).all(1)
    mirrored = (both == plain.flip(3)).flatten(1).all(1)
    assert (same | mirrored).all()
    assert same.any()
    assert mirrored.any()


def test_nothing_is_done_when_nothing_is_asked_for() -> None:
    images = noise(4, 3, 8, 8)
    assert augment_pixels(images, Augmentation.none(), 0) is images
    assert draw_parts(Augmentation.none(), 4, 0) is None
    parts = draw_parts(Augmentation(smallest_area=0.3), 4, 0)
    assert parts is not None
    assert parts.smallest == 0.3
    assert parts.draws.shape == (4, 22)
