"""Published datasets as numbers alone: how many images of which size and how many classes, without a file."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation, Parts
from smallgroup.data.cifar import CIFAR10, CIFAR100, OFFICIAL_TEST, OFFICIAL_TRAIN
from smallgroup.data.config import DataConfig
from smallgroup.data.dataset import Dataset, Proportions
from smallgroup.data.folder import IMAGENET_PROPORTIONS, IMAGENET_SIZE
from smallgroup.data.search_data import SearchData, split_by
from smallgroup.data.training_data import TrainingData
from smallgroup.runtime.checks import check_choice


@dataclass(frozen=True)
class _Facts:
    """The facts that the authors of a dataset state."""

    classes: int
    train: int
    test: int
    size: int
    proportions: Proportions = field(default_factory=Proportions)


PUBLISHED = {
    "cifar10": _Facts(CIFAR10.classes, OFFICIAL_TRAIN, OFFICIAL_TEST, 32),
    "cifar100": _Facts(CIFAR100.classes, OFFICIAL_TRAIN, OFFICIAL_TEST, 32),
    "imagenet": _Facts(1000, 1_281_167, 50_000, IMAGENET_SIZE, IMAGENET_PROPORTIONS),
}
"""By the name that the dataset has in a config."""


@dataclass(frozen=True)
class BlankImages:
    """Black images in equal numbers per class, made when they are asked for."""

    count: int
    classes: int
    size: int
    channels: int = 3
    note: str = "black images"

    @cached_property
    def labels(self) -> Tensor:
        """Return labels that cycle through the classes."""
        return torch.arange(self.count) % self.classes

    def __len__(self) -> int:
        return self.count

    def digest(self) -> str:
        """Return the number, classes and size of the images as text."""
        return f"{self.count} black images, {self.classes} classes, {self.size} pixels"

    def resized(self, size: int) -> "BlankImages":
        """Return as many black images in another size."""
        return replace(self, size=size)

    def without_labels(self, size: int, channels: int) -> "BlankImages":
        """Return the same in another size; the labels stay, because those of black images mean nothing."""
        return replace(self, size=size, channels=channels)

    def fetch(self, indices: Tensor, parts: Parts | None = None) -> Tensor:  # noqa: ARG002
        """Return black images."""
        return torch.zeros(len(indices), self.channels, self.size, self.size, dtype=torch.uint8)


def blank_dataset(name: str, size: int | None = None) -> Dataset:
    """Return a dataset of black images in the published numbers and sizes."""
    check_choice("a dataset of published size", name, tuple(PUBLISHED))
    facts = PUBLISHED[name]
    size = size or facts.size
    return Dataset(
        name=name,
        classes=tuple(map(str, range(facts.classes))),
        train=BlankImages(facts.train, facts.classes, size),
        test=BlankImages(facts.test, facts.classes, size),
        mean=(0.5,) * 3,
        std=(0.5,) * 3,
        channels=3,
        size=size,
        augmentation=Augmentation.none(),
        proportions=facts.proportions,
    )


def blank_search_data(config: DataConfig, *, seed: int) -> SearchData:
    """Return what `open_search_data` would open, were the published data there, with black images."""
    dataset = blank_dataset(config.dataset, config.size)
    # In the order of files the parts are as large, and a thousand classes need not be shared out one by one.
    splits = split_by(config.model_copy(update={"order": "file"}), dataset, seed)
    images = dataset.train if splits.unlabeled is not None else blank_dataset(config.unlabeled, dataset.size).train
    indices = torch.arange(len(images)) if splits.unlabeled is None else splits.unlabeled
    return SearchData(dataset, splits, images, indices, dataset.augmentation, workers=0)


def blank_training_data(config: DataConfig) -> TrainingData:
    """Return what `open_training_data` would open, likewise."""
    dataset = blank_dataset(config.dataset, config.size)
    return TrainingData(dataset, dataset.augmentation, workers=0)
