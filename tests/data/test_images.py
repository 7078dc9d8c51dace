import torch

from smallgroup.data import TensorImages
from smallgroup.data.augment import Parts
from smallgroup.data.decoding import DRAWS
from tests.data.makers import noise


def test_other_sizes_and_channels_are_made_on_the_way_out() -> None:
    pixels = torch.tensor([10, 100, 250], dtype=torch.uint8).view(1, 3, 1, 1).expand(6, 3, 32, 32)
    grey = TensorImages(pixels, None, size=8, channels=1).fetch(torch.tensor([4, 1]))
    assert grey.shape == (2, 1, 8, 8)
    assert grey.eq(90).all()  # 0.299 * 10 + 0.587 * 100 + 0.114 * 250
    digits = TensorImages(noise(6, 1, 8, 8), None, size=32, channels=3).fetch(torch.tensor([0]))
    assert digits.shape == (1, 3, 32, 32)
    assert torch.equal(digits[:, 0], digits[:, 2])


def test_flat_colours_survive_resizing() -> None:
    flat = torch.full((1, 3, 32, 32), 200, dtype=torch.uint8)
    for size in (1, 7, 64):
        assert TensorImages(flat, None, size=size).fetch(torch.tensor([0])).eq(200).all()


def test_random_parts_of_tensors() -> None:
    pixels = noise(3, 3, 12, 16)
    images = TensorImages(pixels, None, size=6)
    # Area 36 of 192 in the shape 1 : 1, at the lower right: its own size, so nothing is resampled.
    draws = [(36 / 192 - 0.08) / 0.92, 0.5] * 10 + [0.999, 0.999]
    parts = Parts(0.08, torch.tensor([draws] * 2, dtype=torch.float64))
    assert len(draws) == DRAWS
    assert torch.equal(images.fetch(torch.tensor([2, 0]), parts), pixels[[2, 0], :, 6:, 10:])
    assert torch.equal(TensorImages(pixels, None, size=12).fetch(torch.tensor([1])), pixels[1:2, :, :, 2:14])
