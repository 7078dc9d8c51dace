"""Everything a training from scratch reads, out of one config."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation
from smallgroup.data.config import AugmentationConfig, DataConfig
from smallgroup.data.dataset import Dataset, class_counts
from smallgroup.data.images import Images, skipped_of
from smallgroup.data.loader import ChosenRows, LabeledImages, Stream, whole_batch
from smallgroup.data.roots import data_root
from smallgroup.data.search_data import split_by
from smallgroup.data.sources import open_dataset, open_unlabeled
from smallgroup.data.splits import check_classes, mixed, stratified
from smallgroup.data.views import UnlabeledImages, ViewsReader, strong_view, weak_view

MEASURED = 2000
"""Validation images, at most, by which short trainings are compared."""


@dataclass(frozen=True)
class TrainingData:
    """A dataset all of whose training images are trained on, those of the search's validation part too.

    All but the held-out ones, if there are any: they are tested on then, and the test images are left alone.
    """

    dataset: Dataset
    augmentation: Augmentation
    workers: int
    held_out: Tensor | None = None
    """Places of the training images that are tested on instead of the test images."""
    validation: Tensor | None = None
    """Places of training images that are measured after every epoch instead of being trained on."""
    only: Tensor | None = None
    """Places of the training images that are trained on; None: all but those above."""
    hidden: Tensor | None = None
    """Places of training images that are trained on without their labels."""
    unlabeled: UnlabeledImages | None = None
    """What is learned from peers on, where networks are trained as a group."""

    @cached_property
    def digest(self) -> str:
        """A text that changes with the images: a run is resumed only on the images it started with."""
        test, own = self.dataset.test, self.held_out
        kept = [part for part in (own, self.validation, self.only, self.hidden) if part is not None]
        apart = "".join(hashlib.sha256(str(part.tolist()).encode()).hexdigest()[:16] for part in kept)
        other = "" if self.unlabeled is None else self.unlabeled.images.digest()
        return self.dataset.digest + ("" if test is None else test.digest()) + apart + other

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the images; those that occur in two parts are among it."""
        notes = (*self.dataset.notes, *self.dataset.overlap)
        if self.unlabeled is None or self.unlabeled.images is self.dataset.train or not self.unlabeled.images.note:
            return notes
        return (*notes, f"{self.unlabeled.images.note} (unlabeled)")

    @property
    def skipped(self) -> tuple[str, ...]:
        """Image files that cannot be decoded and are left out."""
        return skipped_of(self.dataset.train, *(() if self.unlabeled is None else (self.unlabeled.images,)))

    @property
    def tested(self) -> tuple[Images, Tensor] | None:
        """Images to test on, and which of them; None: there are none."""
        if self.held_out is not None:
            return self.dataset.train, self.held_out
        test = self.dataset.test
        return None if test is None else (test, torch.arange(len(test)))

    @cached_property
    def trained(self) -> Tensor:
        """Places of the images that are trained on."""
        if self.only is not None:
            return self.only
        kept = torch.ones(len(self.dataset.train), dtype=torch.bool)
        for left_out in (self.held_out, self.validation, self.hidden):
            if left_out is not None:
                kept[left_out] = False
        return kept.nonzero().flatten()

    def two_views(self, batch_size: int, seed: int, device: torch.device | str = "cpu") -> ViewsReader:
        """Return batches of unlabeled images, augmented twice."""
        if self.unlabeled is None:
            raise ValueError(f"{self.dataset.name} must have unlabeled images for a group, but none were opened")
        own, dataset = self.unlabeled, self.dataset
        weak, strong = (
            own.stream(view, batch_size, seed, mean=dataset.mean, std=dataset.std, workers=self.workers, device=device)
            for view in ("weak", "strong")
        )
        return ViewsReader(weak, strong)

    def train(
        self, batch_size: int, seed: int, device: torch.device | str = "cpu", rows: ChosenRows = whole_batch
    ) -> Stream[LabeledImages]:
        """Return augmented training batches; of each the images that `rows` names."""
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
            rows=rows,
        )


def open_training_data(
    config: DataConfig, augmentation: AugmentationConfig, *, seed: int, validation: float = 0.0
) -> TrainingData:
    """Open what a config names; the augmentation is the data's, the search's and then the training's.

    `validation` is the share of the training images that is measured after every epoch instead of being trained on.
    """
    dataset = open_dataset(config.dataset, data_root(config.data_root), size=config.size, bad=config.bad)
    check_classes(dataset)
    augmented = augmentation.over(config.augmentation.over(dataset.augmentation))
    held_out = split_by(config, dataset, seed).held_out if config.held_out else None
    apart = _set_apart(dataset, held_out, validation, seed) if validation else None
    return TrainingData(dataset, augmented, config.workers, held_out, apart)


@dataclass(frozen=True)
class Views:
    """Departures from the augmentation of both views of unlabeled images."""

    weak: AugmentationConfig
    strong: AugmentationConfig


def open_group_data(
    config: DataConfig,
    augmentation: AugmentationConfig,
    *,
    seed: int,
    validation: float = 0.0,
    views: Views | None,
) -> TrainingData:
    """Open what a config names for networks that are trained as a group.

    Of `unlabeled: split`, labels are used neither to train nor to validate. `train` is the images that are trained on,
    once more without labels. Without `views` nobody learns from unlabeled images, and none are opened.
    """
    plain = open_training_data(config, augmentation, seed=seed)
    dataset, hidden = plain.dataset, None
    if config.unlabeled == "split":
        hidden = split_by(config, dataset, seed).unlabeled
    left_out = [part for part in (plain.held_out, hidden) if part is not None]
    apart = _set_apart(dataset, torch.cat(left_out) if left_out else None, validation, seed) if validation else None
    labeled = replace(plain, validation=apart, hidden=hidden)
    if views is None:
        return labeled
    images, indices = dataset.train, labeled.trained if hidden is None else hidden
    if hidden is None and config.unlabeled not in ("train", config.dataset):
        images = open_unlabeled(config.unlabeled, data_root(config.data_root), dataset, config.bad)
        indices = torch.arange(len(images))
    own = plain.augmentation
    weak, strong = weak_view(own, views.weak), strong_view(own, views.strong, dataset.size)
    return replace(labeled, unlabeled=UnlabeledImages(images, indices, weak, strong))


def open_parts_of_search(config: DataConfig, augmentation: AugmentationConfig, *, seed: int) -> TrainingData:
    """Open the labeled parts of a search for short trainings: one to train on, one to be measured on.

    Of a large validation part a sample is enough, always the same: it is looked at after every short training.
    """
    whole = open_training_data(config, augmentation, seed=seed)
    parts = split_by(config, whole.dataset, seed)
    measured = mixed(parts.validation)[:MEASURED].sort().values
    return replace(whole, held_out=None, validation=measured, only=parts.train)


def _set_apart(dataset: Dataset, held_out: Tensor | None, share: float, seed: int) -> Tensor | None:
    """Return a share of every class that is not held out; None where a class is too small to spare an image."""
    free = torch.ones(len(dataset.train), dtype=torch.bool)
    if held_out is not None:
        free[held_out] = False
    places = free.nonzero().flatten()
    labels = dataset.labels()[places]
    if min(class_counts(labels, dataset.classes)) < 2:
        return None
    return places[stratified(labels, dataset.classes, (share,), seed, "validation of a training")[0]]
