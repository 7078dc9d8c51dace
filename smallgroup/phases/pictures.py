"""Images of a dataset as small pictures, for the pages of a run."""

import base64
from collections.abc import Sequence
from io import BytesIO

import torch
from PIL import Image
from torch import Tensor

from smallgroup.data import FileImages, Images

LARGEST = 48
"""Pixels of a side of a thumbnail."""


def pictures_of(images: Images, places: Sequence[int]) -> list[dict[str, str]]:
    """Return some images as `picture`, a PNG in base64, and with the `name` of the file where each has one."""
    entries = []
    for place, pixels in zip(places, images.fetch(torch.tensor(places)), strict=True):
        entry = {"picture": thumbnail(pixels)}
        if isinstance(images, FileImages):
            entry["name"] = images.paths[place].rsplit("/", 1)[-1].encode(errors="replace").decode()
        entries.append(entry)
    return entries


def thumbnail(pixels: Tensor) -> str:
    """Return a small PNG in base64, of uint8 [channels, height, width]."""
    values = pixels.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(values[:, :, 0] if values.shape[2] == 1 else values)
    picture.thumbnail((LARGEST, LARGEST))
    with BytesIO() as file:
        picture.save(file, "PNG", optimize=True)
        return base64.b64encode(file.getvalue()).decode()
