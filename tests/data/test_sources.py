from pathlib import Path

import pytest
import torch

from smallgroup.data import DataError, FileImages, data_root, open_dataset, open_unlabeled
from smallgroup.runtime.text import LONGEST, shown
from tests.data.makers import cifar10_folder, cifar100_folder, class_folders, picture


def test_digits_need_no_file() -> None:
    data = open_dataset("digits", Path("/nowhere"))
    assert data.classes == tuple("0123456789")
    assert (data.channels, data.size) == (1, 8)
    assert data.test is not None
    assert len(data.train) + len(data.test) == 1797
    assert abs(len(data.test) - 0.2 * 1797) < 2
    pixels = data.train.fetch(torch.arange(len(data.train)))
    assert pixels.shape[1:] == (1, 8, 8)
    values = set(pixels.flatten().tolist())
    assert (min(values), max(values), len(values)) == (0, 255, 17)
    assert abs(pixels.double().mean() / 255 - data.mean[0]) < 1e-3
    assert abs((pixels.double() / 255).std() - data.std[0]) < 1e-3
    assert not data.augmentation.flip
    assert torch.bincount(data.labels()).min() > 130
    again = open_dataset("digits", Path())
    assert torch.equal(pixels, again.train.fetch(torch.arange(len(data.train))))
    assert open_dataset("digits", Path(), size=16).train.fetch(torch.tensor([0])).shape == (1, 1, 16, 16)


def test_unlabeled_images_come_like_the_labeled_ones(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    cifar100_folder(tmp_path)
    digits, cifar = open_dataset("digits", tmp_path), open_dataset("cifar10", tmp_path)
    class_folders(tmp_path / "pictures", 5)
    picture(tmp_path / "pictures" / "loose.png")
    counts = {"cifar10": 200, "cifar100": 200, "digits": 1438, f"folder:{tmp_path / 'pictures'}": 16}
    for name, count in counts.items():
        for like in (digits, cifar):
            images = open_unlabeled(name, tmp_path, like)
            assert images.labels is None
            assert len(images) == count
            fetched = images.fetch(torch.tensor([count - 1, 0]))
            assert fetched.dtype == torch.uint8
            assert fetched.shape == (2, like.channels, like.size, like.size)


def test_imagenet_as_unlabeled_images_keeps_its_margin(tmp_path: Path) -> None:
    class_folders(tmp_path / "imagenet" / "train", 3, ("n01", "n02"))
    images = open_unlabeled("imagenet", tmp_path, open_dataset("digits", tmp_path))
    assert isinstance(images, FileImages)
    assert images.margin == 256 / 224
    assert images.fetch(torch.tensor([0])).shape == (1, 1, 8, 8)


def test_unknown_names_and_sizes() -> None:
    for name in ("mnist", "folder:", "", "CIFAR10"):
        with pytest.raises(
            DataError,
            match=rf"one of digits, cifar10, cifar100, imagenet, folder:PATH, hf:NAME, own:NAME, but got '{name}'",
        ):
            open_dataset(name, Path())
    with pytest.raises(DataError, match="1 <= size <= 4096 must hold"):
        open_dataset("digits", Path(), size=0)


def test_folders_of_unlabeled_images_must_hold_some(tmp_path: Path) -> None:
    digits = open_dataset("digits", tmp_path)
    with pytest.raises(DataError, match=r"must hold images for the unlabeled set, but there is none in it"):
        open_unlabeled(f"folder:{tmp_path}", tmp_path, digits)
    with pytest.raises(DataError, match=r"unlabeled images 'folder:PATH' must be a folder, but .*x does not exist"):
        open_unlabeled(f"folder:{tmp_path / 'x'}", tmp_path, digits)


def test_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMALLGROUP_DATA", "/from/environment")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("HOME", "/someone")
    assert data_root(Path("~/given")) == Path("/someone/given")
    assert data_root() == Path("/from/environment")
    monkeypatch.setenv("SMALLGROUP_DATA", "")
    assert data_root() == Path("/cache/smallgroup")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root(None) == Path("/someone/.cache/smallgroup")


def test_foreign_texts_are_made_fit_for_a_sentence() -> None:
    assert shown("a\nb\x1b[31m\udcff") == r"a\nb\x1b[31m\udcff"
    assert shown("Grüße 猫") == "Grüße 猫"
    long = shown("x" * 5000 + "end")
    assert len(long) <= LONGEST + 3
    assert long.endswith("end")


@pytest.mark.parametrize("name", ["a\x00b", "x" * 5000, "~nobody-of-that-name/x"])
def test_impossible_paths_get_a_sentence_too(name: str) -> None:
    with pytest.raises(DataError, match="must be a folder") as caught:
        open_dataset(f"folder:{name}", Path())
    assert len(str(caught.value)) < 400
    with pytest.raises(DataError):
        open_dataset("cifar10", Path(name))
