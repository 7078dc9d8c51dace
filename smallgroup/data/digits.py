"""Scikit-learn's handwritten digits: 1,797 gray images of 8 x 8 pixels that need no download."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from smallgroup.data.augment import Augmentation
from smallgroup.data.dataset import Dataset
from smallgroup.data.images import TensorImages
from smallgroup.data.normalization import statistics_of
from smallgroup.data.splits import set_aside


def open_digits(size: int | None = None) -> Dataset:
    """Return the digits; a fifth of every class, always the same images, is the test part.

    They are shifted by a pixel in training and never mirrored: a mirrored 2 is no digit.
    """
    table = _table()
    pixels = torch.from_numpy(table[:, :-1]).reshape(-1, 1, 8, 8).mul(255 / 16).round().to(torch.uint8)
    labels = torch.from_numpy(table[:, -1]).to(torch.int64)
    classes = tuple(str(digit) for digit in range(10))
    parts = set_aside(labels, classes, "digits")
    assert parts is not None
    test, train = parts
    mean, std = statistics_of(pixels[train])
    return Dataset(
        name="digits",
        classes=classes,
        train=TensorImages(pixels[train], labels[train], size=size),
        test=TensorImages(pixels[test], labels[test], size=size),
        mean=mean,
        std=std,
        channels=1,
        size=size or 8,
        augmentation=Augmentation(crop_padding=1, flip=False),
    )


def _table() -> NDArray[np.float64]:
    """Return [1797, 65]: the pixels of an image, from 0 to 16, and its digit in every row."""
    found = find_spec("sklearn")
    path = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz" if found and found.origin else None
    if path and path.is_file():  # scikit-learn's own file: importing the package takes longer than all the rest
        with gzip.open(path, "rt", encoding="ascii") as file:
            return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits  # noqa: PLC0415

    pixels, digits = load_digits(return_X_y=True)
    return np.column_stack([pixels, digits])
