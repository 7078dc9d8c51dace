"""The part of a config that is about data."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from smallgroup.data.names import check_name, source_of
from smallgroup.data.roots import data_root
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.section import Section

if TYPE_CHECKING:
    from smallgroup.data.augment import Augmentation
    from smallgroup.data.checking import BadImages
    from smallgroup.data.dataset import Proportions

MADE = ("split", "train")
"""Unlabeled images that are made of the training images."""


class AugmentationConfig(Section):
    """Departures from the augmentation that suits the dataset; null: the dataset's own."""

    smallest_area: float | None = Field(default=None, gt=0, le=1)
    """Smallest share of an image that a random resized crop shows; null: the dataset's own."""
    crop_padding: int | None = Field(default=None, ge=0, le=256)
    """Pixels around an image before a random crop; null: the dataset's own."""
    flip: bool | None = None
    """Whether half of the images are mirrored; null: the dataset's own."""
    color_jitter: bool | None = None
    """Whether brightness, contrast and saturation vary; null: the dataset's own."""
    cutout: int | None = Field(default=None, ge=0, le=MOST["image_size"])
    """Side in pixels of a square that is cut out; null: the dataset's own, as a rule none."""

    def over(self, own: "Augmentation") -> "Augmentation":
        """Return the dataset's own augmentation with these departures."""
        return own.model_copy(update=self.model_dump(exclude_none=True))


class DataConfig(Section):
    """The images of a run, and how they are split and augmented."""

    dataset: str = "digits"
    """One of `smallgroup list datasets`, such as `digits`, `cifar10` or `folder:PATH`."""
    unlabeled: str = "split"
    """The same names, or `split` (part of the training images) or `train` (the training images again)."""
    data_root: Path | None = None
    """Folder with the datasets; null: the environment variable SMALLGROUP_DATA, else the user's cache folder."""
    size: int | None = Field(default=None, ge=1, le=MOST["image_size"])
    """Height and width of the images in pixels; null: the data's own."""
    order: Literal["stratified", "file"] = "stratified"
    """How the training images are split: by class and seed, or in the order of the files."""
    labeled_fraction: float | None = Field(default=None, gt=0, le=1)
    """Share of the training images used with labels in a search; null: the dataset's own (ImageNet 0.125, else 1)."""
    train_fraction: float | None = Field(default=None, gt=0, lt=1)
    """Share of those that trains weights; null: the dataset's own (ImageNet 0.8, else 0.5)."""
    unlabeled_fraction: float | None = Field(default=None, gt=0, lt=1)
    """Share of the training images that `split` takes; null: the dataset's own (ImageNet 0.1, else a third)."""
    held_out: float = Field(default=0.0, ge=0, lt=1)
    """Share of the training images kept from the search for choosing lambda and the number of learners (paper: 0.1).

    A training does not use them either, and is tested on them instead of the test images.
    """
    split_seed: int | None = Field(default=None, ge=0)
    """Seed of the split; null: the seed of the run."""
    augmentation: AugmentationConfig = AugmentationConfig()
    """Departures from the augmentation that suits the dataset."""
    skip_bad_images: bool = False
    """Whether image files that cannot be decoded are skipped and counted; false: they are an error."""
    workers: int = Field(default=0, ge=0, le=MOST["workers"])
    """Processes that decode image files ahead, per stream of images; data in memory need none."""

    @field_validator("dataset")
    @classmethod
    def _known(cls, name: str) -> str:
        check_name(name)
        return name

    @field_validator("unlabeled")
    @classmethod
    def _known_or_made(cls, name: str) -> str:
        check_name(name, MADE)
        return name

    @property
    def bad(self) -> "BadImages":
        """Return what is done about files that cannot be decoded."""
        return "skip" if self.skip_bad_images else "refuse"

    def require(self, *, unlabeled: bool) -> None:
        """Refuse missing data, and missing unlabeled data if it is used. Nothing is read."""
        root = data_root(self.data_root)
        source_of(self.dataset, root).require()
        if unlabeled and self.unlabeled not in MADE:
            source_of(self.unlabeled, root).require("unlabeled images")

    def proportions(self, own: "Proportions") -> "Proportions":
        """Return the dataset's own proportions with the departures given here."""
        given = {"labeled": self.labeled_fraction, "train": self.train_fraction, "unlabeled": self.unlabeled_fraction}
        return replace(own, **{name: share for name, share in given.items() if share is not None})
