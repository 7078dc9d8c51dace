"""Everything a training from scratch reads, out of one config."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation
from smallgroup.data.config import AugmentationConfig, DataConfig
from smallgroup.data.dataset import Dataset
from smallgroup.data.images import Images, skipped_of
from smallgroup.data.loader import Labelled, Stream
from smallgroup.data.roots import data_root
from smallgroup.data.search_data import split_by
from smallgroup.data.sources import open_dataset
from smallgroup.data.splits import check_classes


@dataclass(frozen=True)
class TrainingData:
    """A dataset all of whose training images are trained on, those of the search's validation part too.

    All but the held-out ones, if there are any: they are tested on then, and the test images are left alone.
    """

    dataset: Dataset
    augmentation: Augmentation
    workers: int
    held_out: Tensor | None = None
    """Places of training images."""

    @cached_property
    def digest(self) -> str:
        """A text that changes with the images: a run is resumed on the images it was begun with."""
        test, own = self.dataset.test, self.held_out
        held_out = "" if own is None else hashlib.sha256(str(own.tolist()).encode()).hexdigest()[:16]
        return self.dataset.digest + ("" if test is None else test.digest()) + held_out

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the images; those that occur in two parts are among it."""
        return (*self.dataset.notes, *self.dataset.overlap)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Image files that cannot be decoded and are left out."""
        return skipped_of(self.dataset.train)

    @property
    def tested(self) -> tuple[Images, Tensor] | None:
        """Images to test on, and which of them; None: there are none."""
        if self.held_out is not None:
            return self.dataset.train, self.held_out
        test = self.dataset.test
        return None if test is None else (test, torch.arange(len(test)))

    @property
    def trained(self) -> Tensor:
        """Places of the images that are trained on."""
        kept = torch.ones(len(self.dataset.train), dtype=torch.bool)
        if self.held_out is not None:
            kept[self.held_out] = False
        return kept.nonzero().flatten()

    def train(self, batch_size: int, seed: int, device: torch.device | str = "cpu") -> Stream[Labelled]:
        """Augmented training batches."""
        return Stream(
            self.dataset.train,
            self.trained,
            batch_size=batch_size,
            seed=seed,
            purpose="evaluation",
            augmentation=self.augmentation,
            mean=self.dataset.mean,
            std=self.dataset.std,
            workers=self.workers,
            device=device,
        )


def open_training_data(config: DataConfig, augmentation: AugmentationConfig, *, seed: int) -> TrainingData:
    """Open what a config names; the augmentation is the data's, the search's and then the training's."""
    dataset = open_dataset(config.dataset, data_root(config.data_root), size=config.size, bad=config.bad)
    check_classes(dataset)
    augmented = augmentation.over(config.augmentation.over(dataset.augmentation))
    held_out = split_by(config, dataset, seed).held_out if config.held_out else None
    return TrainingData(dataset, augmented, config.workers, held_out)
