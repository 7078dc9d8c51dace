"""Images for a trained model, exactly as its test images were prepared."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from smallgroup.data.augment import normalize
from smallgroup.data.decoding import Unreadable, picture
from smallgroup.data.errors import DataError
from smallgroup.phases.training.model import TrainedModel
from smallgroup.runtime.text import shown

AnyImage = str | Path | Image.Image | NDArray[np.uint8]
"""A file by its path, an image of Pillow's, or pixels [height, width] or [height, width, channels]."""


@dataclass(frozen=True)
class Preprocess:
    """Turn an image into the input of a model: its center, in the model's size, channels and scale."""

    size: int
    channels: int
    margin: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, model: TrainedModel) -> "Preprocess":
        """Take what the description of a model says about its images."""
        return cls(model.design.images.size, model.design.images.channels, model.margin, model.mean, model.std)

    def __call__(self, image: AnyImage) -> Tensor:
        """Return the input [1, channels, size, size] of one image; one that cannot be used is a DataError."""
        try:
            return self.finish(self.pixels(image))
        except Unreadable as error:
            raise DataError(f"image {shown(name_of(image))} {shown(error)}") from None

    def pixels(self, image: AnyImage) -> Tensor:
        """Return the pixels [1, channels, size, size] of one image as uint8; `Unreadable` says why there are none."""
        if isinstance(image, np.ndarray):
            image = _from_array(image)
        if not isinstance(image, str | Path | Image.Image):
            raise TypeError(f"an image must be a path, a PIL image or a uint8 array, but got {type(image).__name__}")
        source = image if isinstance(image, Image.Image) else str(image)
        found = picture(source, size=self.size, channels=self.channels, margin=self.margin, smallest=None, draws=None)
        return torch.from_numpy(found.copy())[None]

    def finish(self, pixels: Tensor) -> Tensor:
        """Normalize a batch of pixels by the model's mean and deviation."""
        return normalize(pixels, self.mean, self.std, torch.float32)


def name_of(image: AnyImage, place: int | None = None) -> str:
    """Return how an image is named in messages and predictions; `place` is its place among others."""
    if isinstance(image, str | Path):
        return str(image)
    kind = "array" if isinstance(image, np.ndarray) else "PIL image"
    return f"<{kind}>" if place is None else f"<{kind} {place}>"


def _from_array(pixels: NDArray[np.uint8]) -> Image.Image:
    shape = pixels.shape[:2] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels.shape
    sound = len(shape) == 2 or (len(shape) == 3 and shape[2] in (3, 4))
    if pixels.dtype != np.uint8 or not sound or 0 in shape:
        raise DataError(
            "an array must be uint8 [height, width] or [height, width, channels] with 1, 3 or 4 channels, but got "
            f"{pixels.dtype} {list(pixels.shape)}"
        )
    return Image.fromarray(np.ascontiguousarray(pixels.reshape(shape)))
