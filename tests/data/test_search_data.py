from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from smallgroup.data import Augmentation, AugmentationConfig, DataConfig, Proportions, open_search_data
from tests.data.makers import cifar10_folder, cifar100_folder


def test_the_default_needs_nothing() -> None:
    data = open_search_data(DataConfig(), seed=0)
    inputs, labels = data.train(32, seed=0).batch(0)
    assert inputs.shape == (32, 1, 8, 8)
    assert labels.shape == (32,)
    assert data.validation(32, seed=0).batch(0)[0].shape == (32, 1, 8, 8)
    assert data.without_labels(32, seed=0).batch(0).shape == (32, 1, 8, 8)
    parts = [data.splits.train, data.splits.validation, data.unlabeled_indices]
    assert len(set(torch.cat(parts).tolist())) == sum(map(len, parts)) == 1438
    assert data.augmentation == Augmentation(crop_padding=1, flip=False)


def test_the_paper_s_setting(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    cifar100_folder(tmp_path)
    config = DataConfig(
        dataset="cifar10",
        unlabeled="cifar100",
        data_root=tmp_path,
        held_out=0.1,
        augmentation=AugmentationConfig(cutout=16),
    )
    data = open_search_data(config, seed=1)
    assert [len(data.splits.train), len(data.splits.validation), len(data.splits.held_out)] == [90, 90, 20]
    assert len(data.unlabeled_indices) == 200
    unlabeled = data.without_labels(64, seed=0)
    # Normalized with the statistics of the labeled set, and augmented alike.
    assert unlabeled.mean == data.dataset.mean
    assert unlabeled.augmentation == data.train(64, seed=0).augmentation == Augmentation(cutout=16)
    again = open_search_data(DataConfig(dataset="cifar10", unlabeled="train", data_root=tmp_path), seed=1)
    own = ("a subset of CIFAR-10: 200 of 50,000 training images", "a subset of CIFAR-10: 40 of 10,000 test images")
    assert again.notes == own
    assert data.notes == (*own, "a subset of CIFAR-100: 200 of 50,000 training images (unlabeled)")
    assert torch.equal(again.unlabeled_indices, again.splits.train)
    assert again.unlabeled is again.dataset.train


def test_departures_from_what_suits_a_dataset() -> None:
    own = Augmentation(smallest_area=0.08, crop_padding=0)
    assert AugmentationConfig().over(own) == own
    changed = AugmentationConfig(flip=False, cutout=8).over(own)
    assert changed == Augmentation(smallest_area=0.08, crop_padding=0, flip=False, cutout=8)
    assert DataConfig().proportions(Proportions(0.1, 0.2, 0.3)) == Proportions(0.1, 0.2, 0.3)
    assert DataConfig(train_fraction=0.7).proportions(Proportions()).train == 0.7


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dataset": "mnist"}, "data must be one of digits"),
        ({"dataset": "split"}, "data must be one of digits"),
        ({"unlabeled": "none"}, "folder:PATH, hf:NAME, own:NAME, split, train, but got 'none'"),
        ({"held_out": 1.0}, "less than 1"),
        ({"train_fraction": 0}, "greater than 0"),
        ({"workers": -1}, "greater than or equal to 0"),
        ({"shuffle": True}, "Extra inputs"),
        ({"augmentation": {"rotate": 1}}, "Extra inputs"),
    ],
)
def test_wrong_settings(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataConfig.model_validate(setting)
    with pytest.raises(ValidationError, match="frozen"):
        DataConfig().dataset = "cifar10"


def test_the_labeled_dataset_as_unlabeled_one_is_its_training_part() -> None:
    data = open_search_data(DataConfig(dataset="digits", unlabeled="digits", held_out=0.1), seed=0)
    assert torch.equal(data.unlabeled_indices, data.splits.train)


def test_all_streams_are_normalized_by_the_labeled_images() -> None:
    data = open_search_data(DataConfig(dataset="digits"), seed=0)
    for source in (data.train, data.validation, data.without_labels):
        stream = source(8, 0)
        assert (stream.mean, stream.std) == (data.dataset.mean, data.dataset.std)
