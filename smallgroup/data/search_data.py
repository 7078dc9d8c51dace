"""Everything a search reads, out of one config."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation
from smallgroup.data.config import DataConfig
from smallgroup.data.dataset import Dataset
from smallgroup.data.images import Images, skipped_of
from smallgroup.data.loader import LabeledImages, Stream
from smallgroup.data.overlap import overlap_note, places
from smallgroup.data.roots import data_root
from smallgroup.data.sources import open_dataset, open_unlabeled
from smallgroup.data.splits import Splits, check_classes, split


@dataclass(frozen=True)
class SearchData:
    """A dataset, its split, and the unlabeled images wherever they come from."""

    dataset: Dataset
    """The dataset in the size that the search uses."""
    splits: Splits
    unlabeled: Images
    unlabeled_indices: Tensor
    augmentation: Augmentation
    workers: int
    shrunk_from: int | None = None
    """The size of the images in trainings, where that in the search is smaller."""

    @property
    def full_size(self) -> int:
        """Return the size of the images in trainings."""
        return self.shrunk_from or self.dataset.size

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what a user should know about the images, unlabeled images of another dataset included."""
        other = "" if self.unlabeled is self.dataset.train else self.unlabeled.note
        return (*self.labeled_notes, f"{other} (unlabeled)") if other else self.labeled_notes

    @cached_property
    def labeled_notes(self) -> tuple[str, ...]:
        """Return what a user should know about the labeled images, such as duplicates across parts."""
        images, splits = self.dataset.train, self.splits
        train = ("training", images, places(splits.train))
        validation = overlap_note(("validation", images, places(splits.validation)), train)
        return (*self.dataset.notes, *self.dataset.overlap, *validation)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Return image files that cannot be decoded and are skipped."""
        return skipped_of(self.dataset.train, self.unlabeled)

    @cached_property
    def digest(self) -> str:
        """Return a text that changes with the images and their split, on which a run may be resumed."""
        parts = (self.splits.train, self.splits.validation, self.unlabeled_indices)
        digests = [self.dataset.digest, self.unlabeled.digest()]
        return hashlib.sha256("".join([*digests, *(str(part.tolist()) for part in parts)]).encode()).hexdigest()[:16]

    def train(self, batch_size: int, seed: int, device: torch.device | str = "cpu") -> Stream[LabeledImages]:
        """Return augmented batches of the labeled training images, for V and W."""
        return self._labeled("train", self.splits.train, batch_size, seed, device)

    def validation(self, batch_size: int, seed: int, device: torch.device | str = "cpu") -> Stream[LabeledImages]:
        """Return validation batches for the architecture step, augmented as in the published searches."""
        return self._labeled("validation", self.splits.validation, batch_size, seed, device)

    def without_labels(self, batch_size: int, seed: int, device: torch.device | str = "cpu") -> Stream[Tensor]:
        """Return batches of unlabeled images, normalized and augmented like the labeled ones."""
        return Stream(
            self.unlabeled,
            self.unlabeled_indices,
            batch_size=batch_size,
            seed=seed,
            purpose="unlabeled",
            augmentation=self.augmentation,
            mean=self.dataset.mean,
            std=self.dataset.std,
            labeled=False,
            workers=self.workers,
            device=device,
        )

    def _labeled(
        self, purpose: str, indices: Tensor, batch_size: int, seed: int, device: torch.device | str
    ) -> Stream[LabeledImages]:
        return Stream(
            self.dataset.train,
            indices,
            batch_size=batch_size,
            seed=seed,
            purpose=purpose,
            augmentation=self.augmentation,
            mean=self.dataset.mean,
            std=self.dataset.std,
            workers=self.workers,
            device=device,
        )


def open_search_data(config: DataConfig, *, seed: int, image_size: int | None = None) -> SearchData:
    """Open what a config names and split it by the seed; images that are larger than `image_size` are shrunk to it."""
    root = data_root(config.data_root)
    dataset = open_dataset(config.dataset, root, size=config.size, bad=config.bad)
    check_classes(dataset)
    augmentation, shrunk_from = config.augmentation.over(dataset.augmentation), None
    if image_size is not None and image_size < dataset.size:
        shrunk_from, augmentation = dataset.size, augmentation.scaled(image_size, dataset.size)
        dataset = dataset.resized(image_size, "in the search (search.image_size)")
    splits = split_by(config, dataset, seed)
    if splits.unlabeled is not None:
        images, indices = dataset.train, splits.unlabeled
    else:
        images = open_unlabeled(config.unlabeled, root, dataset, config.bad)
        indices = torch.arange(len(images))
    return SearchData(dataset, splits, images, indices, augmentation, config.workers, shrunk_from)


def split_by(config: DataConfig, dataset: Dataset, seed: int) -> Splits:
    """Divide the training images of a dataset as a config asks, in a run with this seed."""
    own = config.unlabeled if config.unlabeled in ("split", "train") else None
    if config.unlabeled == config.dataset:
        # The same images once more: those of the training part, because the others are kept from training.
        own = "train"
    return split(
        dataset,
        seed=seed if config.split_seed is None else config.split_seed,
        unlabeled=own,  # type: ignore[arg-type]
        held_out=config.held_out,
        order=config.order,
        proportions=config.proportions(dataset.proportions),
    )
