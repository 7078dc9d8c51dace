"""Scikit-learn's handwritten digits: 1,797 grey images of 8 x 8 pixels that need no download."""

import torch

from smallgroup.data.augment import Augmentation
from smallgroup.data.dataset import Dataset
from smallgroup.data.images import TensorImages
from smallgroup.data.normalization import statistics_of
from smallgroup.data.splits import set_aside


def open_digits(size: int | None = None) -> Dataset:
    """The digits; a fifth of every class, always the same images, is the test part.

    They are shifted by a pixel in training and never mirrored: a mirrored 2 is no digit.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415  (takes a second that other data need not wait for)

    found = load_digits()
    pixels = torch.from_numpy(found.images).mul(255 / 16).round().to(torch.uint8).unsqueeze(1)
    labels = torch.from_numpy(found.target).to(torch.int64)
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
