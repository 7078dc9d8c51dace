import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from smallgroup.data import DataError, FileImages, TensorImages, kept
from smallgroup.data.augment import Parts
from smallgroup.data.decoding import DRAWS
from tests.data.makers import noise


def test_other_sizes_and_channels_are_made_on_the_way_out() -> None:
    pixels = torch.tensor([10, 100, 250], dtype=torch.uint8).view(1, 3, 1, 1).expand(6, 3, 32, 32)
    gray = TensorImages(pixels, None, size=8, channels=1).fetch(torch.tensor([4, 1]))
    assert gray.shape == (2, 1, 8, 8)
    assert gray.eq(90).all()  # 0.299 * 10 + 0.587 * 100 + 0.114 * 250
    digits = TensorImages(noise(6, 1, 8, 8), None, size=32, channels=3).fetch(torch.tensor([0]))
    assert digits.shape == (1, 3, 32, 32)
    assert torch.equal(digits[:, 0], digits[:, 2])


def test_flat_colors_survive_resizing() -> None:
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


@pytest.mark.parametrize(("size", "channels"), [(5, 3), (32, 1), (40, 3)])
def test_what_is_kept_is_what_was_made(size: int, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order, again and again, and in any company."""
    pixels, order = noise(9, 3, 32, 24), torch.tensor([4, 4, 0, 8])
    images = TensorImages(pixels, None, size=size, channels=channels)
    first, rest, again = images.fetch(order), images.fetch(torch.arange(9)), images.fetch(order)
    monkeypatch.setattr(kept, "MOST", 0)
    made = TensorImages(pixels, None, size=size, channels=channels)
    assert torch.equal(first, made.fetch(order))
    assert torch.equal(again, first)
    assert torch.equal(rest, torch.cat([made.fetch(torch.tensor([place])) for place in range(9)]))


def test_files_are_decoded_once_if_they_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(tmp_path / f"{place}.png") for place in range(3)]
    for path, image in zip(paths, noise(3, 16, 16, 3).numpy(), strict=True):
        Image.fromarray(image).save(path)
    images = FileImages(paths, None, size=16)
    smaller = images.resized(8)
    seen, small = images.fetch(torch.tensor([2, 0])), smaller.fetch(torch.tensor([2]))
    os.unlink(paths[2])
    assert torch.equal(images.fetch(torch.tensor([0, 2, 0])), seen[[1, 0, 1]])
    assert torch.equal(smaller.fetch(torch.tensor([2])), small)
    assert images.resized(16).size == 16
    with pytest.raises(DataError, match=r"2\.png"):  # another size has decoded nothing yet
        images.resized(12).fetch(torch.tensor([2]))
    monkeypatch.setattr(kept, "MOST", 3 * 16 * 16 * 3 - 1)
    many = FileImages(paths[:2] * 2, None, size=16)
    many.fetch(torch.tensor([0, 1]))
    os.unlink(paths[1])
    with pytest.raises(DataError, match=r"1\.png"):
        many.fetch(torch.tensor([1]))
