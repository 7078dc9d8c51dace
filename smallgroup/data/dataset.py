"""What is known about a set of images once it is opened."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation
from smallgroup.data.images import Images
from smallgroup.data.overlap import everything, overlap_note
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.text import quoted

IMBALANCE = 1.5
"""The largest class may have this many times the images of the smallest before it is worth a note."""


@dataclass(frozen=True)
class Proportions:
    """The shares by which a search divides the training images, unless a config says otherwise."""

    labeled: float = 1.0
    """Share of the images that is used with labels, for training and validation together."""
    train: float = 0.5
    """Share of those that trains weights; the rest is for validation."""
    unlabeled: float = 1 / 3
    """Share of the images that loses its labels for `unlabeled: split`: as many as remain for either half."""


@dataclass(frozen=True)
class Dataset:
    """Labeled images, and what a network for them needs to know."""

    name: str
    classes: tuple[str, ...]
    train: Images
    test: Images | None
    """The test images, to be looked at once, at the end."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """Per channel, of values in 0..1."""
    channels: int
    size: int
    """Height and width in pixels of what a network sees."""
    augmentation: Augmentation
    """What suits these images in training."""
    about: str = ""
    """Their size and why, and their channels, where the data leave a choice."""
    notes: tuple[str, ...] = ()
    """What a user should know about what was found: a subset, classes of unequal size, ..."""
    proportions: Proportions = field(default_factory=Proportions)

    @property
    def spec(self) -> ImageSpec:
        """Return what a network needs to know about the images."""
        return ImageSpec(len(self.classes), self.channels, self.size)

    @cached_property
    def overlap(self) -> tuple[str, ...]:
        """Return a note on test images that also occur among the training images; None: there are none."""
        if self.test is None:
            return ()
        return overlap_note(
            ("test", self.test, everything(self.test)), ("training", self.train, everything(self.train))
        )

    @property
    def digest(self) -> str:
        """Return a text that changes with the training images, and with statistics computed from them."""
        measured = ":" in self.name  # a folder and the like: names without an argument have published images
        return self.train.digest() + (f" {self.mean} {self.std}" if measured else "")

    def resized(self, size: int, where: str) -> "Dataset":
        """Return the same images in another size, and say where; mean and deviation stay those of the data."""
        test = None if self.test is None else self.test.resized(size)
        return replace(
            self,
            train=self.train.resized(size),
            test=test,
            size=size,
            augmentation=self.augmentation.scaled(size, self.size),
            about=self.about_size(size, where),
        )

    def about_size(self, size: int, where: str) -> str:
        """Say what size the images have, and where they have another one."""
        return f"{size}x{size} {where}, else {self.about or f'{self.size}x{self.size}'}"

    def labels(self) -> Tensor:
        """Return the classes of the training images, in their order."""
        if self.train.labels is None:
            raise TypeError(f"{self.name} has no labels")
        return self.train.labels


def class_counts(labels: Tensor, classes: tuple[str, ...]) -> list[int]:
    """Return the number of training images of each class."""
    counts: list[int] = torch.bincount(labels, minlength=len(classes)).tolist()
    return counts


def imbalance(labels: Tensor, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note on classes of unequal size, if they are."""
    counts = class_counts(labels, classes)
    most, least = max(counts), min(counts)
    if most <= IMBALANCE * least:
        return ()
    large, small = (quoted(classes[counts.index(count)]) for count in (most, least))
    ratio = f", {most / least:.3g} times as many" if least else ""
    share = 100 * most / sum(counts)
    return (
        f"classes are unequal: {large} has {most:,} training images, {small} has {least:,}{ratio}; "
        f"{share:.3g} % of all are {large}: compare the balanced error",
    )
