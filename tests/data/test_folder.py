import os
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from smallgroup.data import Augmentation, DataError, Dataset, FileImages, open_dataset
from smallgroup.data.folder import images_below, open_folder, open_imagenet
from tests.data.makers import class_folders, picture


def names(data: Dataset) -> list[str]:
    assert isinstance(data.train, FileImages)
    return [os.path.relpath(path, data.name.removeprefix("folder:")) for path in data.train.paths]


def test_classes_are_folders_and_files_are_sorted(tmp_path: Path) -> None:
    class_folders(tmp_path, 4)
    (tmp_path / "ants" / "readme.txt").write_text("no image")
    (tmp_path / "ants" / ".hidden.png").write_text("no image")
    (tmp_path / ".git").mkdir()
    picture(tmp_path / "bees" / "deeper" / "x.PNG")
    data = open_folder(tmp_path)
    assert data.classes == ("ants", "bees", "cats")
    assert names(data)[:5] == ["ants/0.png", "ants/1.JPG", "ants/2.png", "ants/3.JPG", "bees/0.png"]
    assert "bees/deeper/x.PNG" in names(data)
    assert data.labels().tolist() == [0] * 4 + [1] * 5 + [2] * 4
    assert data.test is None
    assert any("leave none for a test part" in note for note in data.notes)


def test_without_a_test_part_the_same_fifth_is_always_set_aside(tmp_path: Path) -> None:
    data, again = (open_folder(class_folders(tmp_path, 10)) for _ in range(2))
    assert names(data) == names(again)
    assert isinstance(data.test, FileImages)
    assert data.test.labels is not None
    assert torch.bincount(data.test.labels).tolist() == [2, 2, 2]
    assert len(set(names(data))) == 24
    assert isinstance(data.train, FileImages)
    assert not set(data.test.paths) & set(data.train.paths)
    assert "there is no val/ or test/: 6 of 30 images are set aside as the test part" in data.notes


@pytest.mark.parametrize("part", ["val", "test"])
def test_train_and_test_folders(tmp_path: Path, part: str) -> None:
    class_folders(tmp_path / "train", 3)
    class_folders(tmp_path / part, 2, ("bees", "cats"))
    data = open_folder(tmp_path)
    assert len(data.train) == 9
    assert data.test is not None
    assert data.test.labels is not None
    assert data.test.labels.tolist() == [1, 1, 2, 2]
    class_folders(tmp_path / part, 1, ("dogs",))
    with pytest.raises(DataError, match=rf"classes in .*{part} must also be in train/, but 'dogs' is not"):
        open_folder(tmp_path)


def test_both_val_and_test(tmp_path: Path) -> None:
    for part, count in [("train", 3), ("val", 2), ("test", 1)]:
        class_folders(tmp_path / part, count)
    data = open_folder(tmp_path)
    assert data.test is not None
    assert len(data.test) == 3
    assert any("test/ is the test part and val/ is not used" in note for note in data.notes)


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    data = open_folder(class_folders(tmp_path, 2, ("bus", "train")))
    assert data.classes == ("bus", "train")


def test_the_usual_size_and_the_augmentation_that_suits_it(tmp_path: Path) -> None:
    small = open_folder(class_folders(tmp_path / "small", 3))
    assert small.size == 18
    own = "18x18, the median of the short sides; the files have 20x18 in the median, their short sides 16 to 20"
    assert small.about == f"{own}; --size changes it; color: 3 channels"
    assert small.augmentation == Augmentation(crop_padding=2)
    for number in range(4):
        picture(tmp_path / "large" / "ab"[number % 2] / f"{number}.png", 100, 90)
    largest = open_folder(tmp_path / "large")
    assert largest.size == 64
    assert largest.about.startswith("64x64, the largest default; the files have 100x90; --size changes it; ")
    large = open_folder(tmp_path / "large", 80)
    assert large.about.startswith("80x80, as given by --size (data.size); the files have 100x90; ")
    assert large.augmentation == Augmentation(smallest_area=0.08, crop_padding=0)
    assert large.train.fetch(torch.tensor([0, 3])).shape == (2, 3, 80, 80)


def test_files_of_one_square_size_keep_it(tmp_path: Path) -> None:
    for number in range(4):
        picture(tmp_path / "ab"[number % 2] / f"{number}.png", 28, 28)
    assert open_folder(tmp_path).about == "28x28, the size of the files; color: 3 channels"


def test_unequal_classes_are_noted(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", 2)
    class_folders(tmp_path / "train", 4, ("bees",))
    said = "unequal: 'bees' has 4 training images, 'ants' has 2, 2 times as many; 50 % of all are 'bees'"
    assert said in "; ".join(open_folder(tmp_path).notes)
    class_folders(tmp_path / "train", 3, ("ants", "cats"))
    assert not any("unequal" in note for note in open_folder(tmp_path).notes)


def test_names_of_unequal_classes_are_escaped_once(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", 2, ("ants",))
    class_folders(tmp_path / "train", 4, ("be\x1bes\\",))
    said = r"unequal: 'be\x1bes\' has 4 training images, 'ants' has 2, 2 times as many; 66.7 % of all are 'be\x1bes\'"
    assert said in "; ".join(open_folder(tmp_path).notes)


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    class_folders(tmp_path, 2)
    (tmp_path / "ants" / "loop").symlink_to(tmp_path / "ants", target_is_directory=True)
    (tmp_path / "ants" / "up").symlink_to(tmp_path, target_is_directory=True)
    found = images_below(tmp_path / "ants")
    assert len(found) < 30
    assert found == sorted(found)


def broken(folder: Path, case: str) -> str:  # noqa: PLR0911
    """Make one kind of bad folder; what the sentence must say."""
    if case == "missing":
        return r"a dataset 'folder:PATH' must be a folder, but .* does not exist"
    if case == "a file":
        folder.write_text("")
        return "must be a folder, but .* is a file"
    if case == "nothing in it":
        folder.mkdir()
        return "must have at least 2 classes, one sub-folder each, but it has no sub-folder"
    if case == "images without classes":
        picture(folder / "a.png")
        return "must have at least 2 classes, one sub-folder each, but it has no sub-folder and 1 images of no class"
    if case == "one class":
        class_folders(folder, 2, ("ants",))
        return "must have at least 2 classes, one sub-folder each, but it has only 'ants'"
    class_folders(folder / "train" if case == "empty test" else folder, 6)
    if case == "empty class":
        (folder / "dogs").mkdir()
        return r"every class in .* must have images, but 'dogs' has none"
    if case == "empty test":
        (folder / "test").mkdir()
        return r"test must hold images in the folders of its classes, but there is none"
    for path in folder.rglob("*.png"):
        path.write_text("no image")
    assert case == "no images"
    return r"image .*png cannot be decoded: it is no image of a known format"


CASES = ["missing", "a file", "nothing in it", "images without classes", "one class"]
CASES += ["empty class", "empty test", "no images"]


@pytest.mark.parametrize("case", CASES)
def test_bad_folders_get_a_sentence_that_says_what_and_where(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "pictures"
    expected = broken(folder, case)
    with pytest.raises(DataError, match=expected) as caught:
        open_dataset(f"folder:{folder}", tmp_path)
    assert "pictures" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_folders_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class_folders(tmp_path, 2)

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"cannot be (read|opened): permission denied"):
        open_folder(tmp_path)


def test_imagenet_layout(tmp_path: Path) -> None:
    class_folders(tmp_path / "imagenet" / "train", 3, ("n01", "n02"))
    class_folders(tmp_path / "imagenet" / "val", 1, ("n01", "n02"))
    data = open_dataset("imagenet", tmp_path)
    assert (data.size, data.mean, data.std) == (224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert data.classes == ("n01", "n02")
    assert data.test is not None
    assert data.augmentation.smallest_area == 0.08
    assert data.notes == ("a subset of ImageNet: 2 of 1,000 classes, 6 training images",)
    assert (data.proportions.labeled, data.proportions.train, data.proportions.unlabeled) == (0.125, 0.8, 0.1)
    shutil.rmtree(tmp_path / "imagenet" / "val")
    assert open_imagenet(tmp_path / "imagenet").test is None
    with pytest.raises(DataError, match=r"ImageNet must be a folder, but .*imagenet/train does not exist.*--data-root"):
        open_dataset("imagenet", tmp_path / "nowhere")


def test_links_back_to_a_folder_or_above_it_add_nothing(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "1.png")
    (tmp_path / "a" / "self").symlink_to(".")
    (tmp_path / "b" / "up").symlink_to("..")
    assert [len(images_below(tmp_path / name)) for name in ("a", "b")] == [1, 1]
