"""Labeled images that a trained model is measured on: other data, under the classes of the model."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smallgroup.data.augment import Parts
from smallgroup.data.checking import listed
from smallgroup.data.dataset import Dataset
from smallgroup.data.errors import DataError
from smallgroup.data.images import FileImages, Images, skipped_of
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.text import shown


@dataclass(frozen=True)
class MeasuredImages:
    """Images, the names of the classes that their labels count, and in words which images of the data they are."""

    classes: tuple[str, ...]
    images: Images
    part: str

    @staticmethod
    def part_of(dataset: Dataset) -> "MeasuredImages":
        """Return the test part of a dataset, else its training part."""
        if dataset.test is not None:
            return MeasuredImages(dataset.classes, dataset.test, "test images")
        return MeasuredImages(dataset.classes, dataset.train, "training images: there is no test part")

    @property
    def skipped(self) -> tuple[str, ...]:
        """Image files that cannot be decoded and are left out."""
        return skipped_of(self.images)

    def for_model(self, classes: Sequence[str], spec: ImageSpec, margin: float) -> "Relabeled":
        """Return the images as a model sees them, labeled by its classes; a class that it does not know is refused."""
        number = {name: place for place, name in enumerate(classes)}
        if unknown := [name for name in self.classes if name not in number]:
            known = listed([shown(name) for name in classes])
            raise DataError(
                f"every class of the data must be one of the model's, but {len(unknown):,} of {len(self.classes):,} "
                f"are not: {listed([shown(name) for name in unknown])}; the model knows {known}"
            )
        labels = self.images.labels
        if labels is None:
            raise DataError("data to evaluate a model on must have labels, but they have none")
        order = torch.tensor([number[name] for name in self.classes], dtype=torch.int64)
        if isinstance(self.images, FileImages):  # whose part is cut out as the model's own images were
            files = FileImages(self.images.paths, None, size=spec.size, channels=spec.channels, margin=margin)
            return Relabeled(files, order[labels])
        return Relabeled(self.images.without_labels(spec.size, spec.channels), order[labels])


@dataclass(frozen=True)
class Relabeled:
    """Images without labels, and labels for them: an `Images`."""

    images: Images
    labels: Tensor

    @property
    def note(self) -> str:
        """Return the note of the images."""
        return self.images.note

    def __len__(self) -> int:
        return len(self.images)

    def digest(self) -> str:
        """Return the digest of the images; labels that were set later are not in it."""
        return self.images.digest()

    def fetch(self, indices: Tensor, parts: Parts | None = None) -> Tensor:
        """Return images by number."""
        return self.images.fetch(indices, parts)

    def resized(self, size: int) -> Images:
        """Return the same images in another size, with the new labels."""
        return Relabeled(self.images.resized(size), self.labels)

    def without_labels(self, size: int, channels: int) -> Images:
        """Return the images without the labels set here."""
        return self.images.without_labels(size, channels)
