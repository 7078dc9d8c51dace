"""Everything a training from scratch reads, out of one config."""

from dataclasses import dataclass
from functools import cached_property

import torch

from smallgroup.data.augment import Augmentation
from smallgroup.data.config import AugmentationConfig, DataConfig
from smallgroup.data.dataset import Dataset
from smallgroup.data.loader import Labelled, Stream
from smallgroup.data.roots import data_root
from smallgroup.data.sources import open_dataset
from smallgroup.data.splits import check_classes


@dataclass(frozen=True)
class TrainingData:
    """A dataset all of whose training images are trained on: those of the search's validation part too."""

    dataset: Dataset
    augmentation: Augmentation
    workers: int

    @cached_property
    def digest(self) -> str:
        """A text that changes with the images: a run is resumed on the images it was begun with."""
        test = self.dataset.test
        return self.dataset.train.digest() + ("" if test is None else test.digest())

    def train(self, batch_size: int, seed: int, device: torch.device | str = "cpu") -> Stream[Labelled]:
        """Augmented training batches."""
        return Stream(
            self.dataset.train,
            torch.arange(len(self.dataset.train)),
            batch_size=batch_size,
            seed=seed,
            purpose="evaluation",
            augmentation=self.augmentation,
            mean=self.dataset.mean,
            std=self.dataset.std,
            workers=self.workers,
            device=device,
        )


def open_training_data(config: DataConfig, augmentation: AugmentationConfig) -> TrainingData:
    """Open what a config names; the augmentation is the data's, the search's and then the training's."""
    dataset = open_dataset(config.dataset, data_root(config.data_root), size=config.size)
    check_classes(dataset)
    return TrainingData(dataset, augmentation.over(config.augmentation.over(dataset.augmentation)), config.workers)
