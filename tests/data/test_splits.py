from itertools import combinations

import pytest
import torch

from smallgroup.data import Augmentation, DataError, Dataset, Proportions, Splits, TensorImages, split
from smallgroup.data.splits import stratified
from tests.data.makers import noise


def dataset(counts: list[int], proportions: Proportions | None = None, shuffled: bool = True) -> Dataset:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    if shuffled:
        labels = labels[torch.arange(len(labels)) * 7919 % len(labels)] if len(labels) % 7919 else labels
    return Dataset(
        name="made",
        classes=tuple(f"class {number}" for number in range(len(counts))),
        train=TensorImages(noise(len(labels), 1, 2, 2), labels),
        test=None,
        mean=(0.5,),
        std=(0.5,),
        channels=1,
        size=2,
        augmentation=Augmentation(),
        proportions=proportions or Proportions(),
    )


def parts(splits: Splits) -> list[torch.Tensor]:
    assert splits.unlabeled is not None
    return [splits.train, splits.validation, splits.held_out, splits.unlabeled]


def disjoint(tensors: list[torch.Tensor]) -> bool:
    sets = [set(part.tolist()) for part in tensors]
    whole = all(len(a) == len(b) for a, b in zip(sets, tensors, strict=True))
    return whole and all(not a & b for a, b in combinations(sets, 2))


def test_halves_are_disjoint_complete_and_equal_in_every_class() -> None:
    data = dataset([50, 50, 50, 50])
    found = split(data, seed=3)
    assert found.unlabeled is None
    assert len(found.held_out) == 0
    assert torch.equal(torch.cat([found.train, found.validation]).sort().values, torch.arange(200))
    for part in (found.train, found.validation):
        assert torch.bincount(data.labels()[part]).tolist() == [25] * 4
        assert torch.equal(part, part.sort().values)


def test_the_seed_decides() -> None:
    data = dataset([30, 30])
    assert torch.equal(split(data, seed=1).train, split(data, seed=1).train)
    assert not torch.equal(split(data, seed=1).train, split(data, seed=2).train)


def test_unequal_and_odd_classes_keep_their_shares() -> None:
    counts = [13, 101, 7, 3, 55]
    data = dataset(counts)
    found = split(data, seed=0, unlabeled="split")
    sizes = [torch.bincount(data.labels()[part], minlength=5) for part in (found.train, found.validation)]
    for train, validation, count in zip(*sizes, counts, strict=True):
        assert train >= 1
        assert validation >= 1
        assert abs(train - count / 3) <= 1.01
    halves = split(data, seed=0)
    assert abs(len(halves.train) - sum(counts) / 2) <= 1


def test_held_out_images_come_from_both_halves_and_are_in_neither() -> None:
    data = dataset([100] * 5)
    whole, less = split(data, seed=4), split(data, seed=4, held_out=0.1)
    assert [len(less.train), len(less.validation), len(less.held_out)] == [225, 225, 50]
    assert disjoint([less.train, less.validation, less.held_out])
    assert set(less.train.tolist()) < set(whole.train.tolist())
    assert set(less.validation.tolist()) < set(whole.validation.tolist())
    assert len(set(less.held_out.tolist()) & set(whole.train.tolist())) == 25
    assert torch.bincount(data.labels()[less.held_out]).tolist() == [10] * 5
    half = split(data, seed=4, held_out=0.1, proportions=Proportions(labeled=0.5))
    assert [len(half.train), len(half.validation), len(half.held_out)] == [100, 100, 50]


def test_unlabeled_images_of_the_same_set() -> None:
    data = dataset([60] * 3)
    found = split(data, seed=0, unlabeled="split")
    assert [len(part) for part in parts(found)] == [60, 60, 0, 60]
    assert disjoint(parts(found))
    again = split(data, seed=0, unlabeled="train")
    assert again.unlabeled is not None
    assert torch.equal(again.unlabeled, again.train)
    assert len(again.train) == 90


def test_imagenet_shares() -> None:
    data = dataset([1000, 1200], Proportions(labeled=0.125, train=0.8, unlabeled=0.1))
    found = split(data, seed=0, unlabeled="split")
    assert [len(part) for part in parts(found)] == [220, 55, 0, 220]
    assert disjoint(parts(found))


def test_file_order_is_first_and_second_half() -> None:
    data = dataset([50, 51])
    found = split(data, seed=0, order="file")
    assert torch.equal(found.train, torch.arange(50))
    assert torch.equal(found.validation, torch.arange(50, 101))
    with pytest.raises(DataError, match="in the training part of made in file order, but 'class 1' has none"):
        split(dataset([50, 50], shuffled=False), seed=0, order="file")


def test_what_cannot_be_split_gets_a_sentence() -> None:
    with pytest.raises(DataError, match="class 'class 1' must have at least 2 images to be split, but it has 1"):
        split(dataset([5, 1]), seed=0)
    with pytest.raises(DataError, match="class 'class 1' must have at least 4 images to be split, but it has 3"):
        split(dataset([5, 3]), seed=0, unlabeled="split", held_out=0.1)
    with pytest.raises(DataError, match="must have at least 2 classes, but it has 1"):
        split(dataset([9]), seed=0)
    with pytest.raises(DataError, match="training part of made, but 'class 1' and 1 others have none"):
        split(dataset([9, 0, 0, 5]), seed=0)
    with pytest.raises(DataError, match=r"train and validation must keep images, but with held_out=1 .* are 0 and 0"):
        split(dataset([9, 9]), seed=0, held_out=1.0)
    with pytest.raises(DataError, match="0 < train <= 1 must hold"):
        split(dataset([9, 9]), seed=0, proportions=Proportions(train=0.0))


@pytest.mark.parametrize(
    "shares", [(0.34, 0.26, 0.4), (0.1, 0.025, 0.1), (0.9, 0.1), (1 / 3, 1 / 3, 1 / 3), (0.05,) * 4]
)
def test_any_shares_of_any_classes(shares: tuple[float, ...]) -> None:
    counts = [4, 5, 6, 7, 11, 13, 4, 29, 4]
    labels = torch.repeat_interleave(torch.arange(9), torch.tensor(counts))
    found = stratified(labels, tuple("abcdefghi"), shares, 0)
    assert disjoint(list(found))
    for part in found:
        assert torch.bincount(labels[part], minlength=9).min() >= 1
