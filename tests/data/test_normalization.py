"""Folders are normalized by their own mean and deviation, and gray ones have one channel."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smallgroup.data import DataConfig, FileImages, Images, checking, decoding, open_dataset, open_search_data
from smallgroup.data.folder import open_folder
from smallgroup.data.normalization import statistics_of, statistics_of_sums
from tests.data.makers import class_folders, noise, picture
from tests.data.test_checking import opened, spoil


def everything(images: Images | None) -> torch.Tensor:
    assert images is not None
    return images.fetch(torch.arange(len(images)))


def gray_folder(root: Path, per_class: int = 10) -> Path:
    """Gray images in the modes of Pillow that gray images come in."""
    for label in range(2):
        for number in range(per_class):
            values = noise(9 + number % 3, 11, key=f"{label}{number}").numpy()
            image = Image.fromarray(values)
            place = root / "ab"[label] / f"{number}"
            place.parent.mkdir(parents=True, exist_ok=True)
            if number % 5 == 0:
                image.convert("RGB").save(place.with_suffix(".png"))
            elif number % 5 == 1:
                image.convert("P").save(place.with_suffix(".gif"))
            elif number % 5 == 2:
                image.convert("RGB").save(place.with_suffix(".jpg"))  # stored in color, and gray all the same
            elif number % 5 == 3:
                Image.fromarray(values.astype(np.uint16) * 257).save(place.with_suffix(".png"))
            else:
                image.save(place.with_suffix(".png"))
    return root


@pytest.mark.parametrize("size", [None, 7, 30])
def test_the_statistics_are_those_of_the_training_images_as_a_network_sees_them(
    tmp_path: Path, size: int | None
) -> None:
    data = open_folder(class_folders(tmp_path, 10), size)
    values = everything(data.train).double() / 255
    assert data.mean == tuple(round(each, 4) for each in values.mean((0, 2, 3)).tolist())
    assert data.std == tuple(round(each, 4) for each in values.transpose(0, 1).flatten(1).std(1, correction=0).tolist())
    with_test = torch.cat([values, everything(data.test).double() / 255])
    assert data.mean != tuple(round(each, 4) for each in with_test.mean((0, 2, 3)).tolist())


def test_batches_are_centered_and_scaled(tmp_path: Path) -> None:
    """Dark images of little contrast, which the statistics of photographs leave far from 0 and 1."""
    for name in "ab":
        for number in range(12):
            path = tmp_path / name / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray((noise(8, 8, 3, key=f"{name}{number}") // 8 + 10).numpy()).save(path)
    config = DataConfig.model_validate(
        {"dataset": f"folder:{tmp_path}", "unlabeled": "train", "augmentation": {"crop_padding": 0}}
    )
    batch, _ = open_search_data(config, seed=0).train(9, seed=0).batch(0)
    assert batch.mean().abs() < 0.05
    assert 0.95 < batch.std() < 1.05


def test_every_file_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, decoded = class_folders(tmp_path, 10), []
    original = decoding._decoded

    def counted(source: str | Image.Image, **rest: object) -> object:
        decoded.append(source)
        return original(source, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(decoding, "_decoded", counted)
    for _ in range(2):
        open_dataset(f"folder:{folder}", tmp_path, bad="refuse")
    assert sorted(map(str, decoded)) == sorted(map(str, folder.rglob("*.*")))


def test_a_channel_that_never_changes_is_not_scaled() -> None:
    assert statistics_of_sums([[0, 0], [0, 0]], 4, 1) == ((0.0,), (1.0,))
    assert statistics_of_sums([], 4, 3) == ((0.0,) * 3, (1.0,) * 3)
    pixels = noise(5, 3, 4, 4)
    pixels[:, 1] = 255
    mean, std = statistics_of(pixels)
    assert (mean[1], std[1]) == (1.0, 1.0)


def test_sums_are_exact_beyond_what_floats_hold() -> None:
    """Of so many pixels the squares of sums have more than 53 bits, and differ in the last ones."""
    pixels = 10**9
    rows = [[value * pixels, value * value * pixels] for value in (254, 255)]
    assert statistics_of_sums(rows, pixels, 1) == ((round(254.5 / 255, 4),), (round(0.5 / 255, 4),))


def test_gray_folders_have_one_channel_and_so_has_all_that_is_seen_with_them(tmp_path: Path) -> None:
    folder, more = gray_folder(tmp_path / "gray"), tmp_path / "more"
    for number in range(4):
        picture(more / f"{number}.png", key=number)
    colored = open_folder(class_folders(tmp_path / "colored", 10))
    assert (colored.channels, len(colored.mean)) == (3, 3)
    assert "color: 3 channels" in colored.about
    config = DataConfig(dataset=f"folder:{folder}", unlabeled=f"folder:{more}")
    data = open_search_data(config, seed=0)
    assert (data.dataset.channels, len(data.dataset.mean), len(data.dataset.std)) == (1, 1, 1)
    assert "gray: 1 channel" in data.dataset.about
    assert everything(data.dataset.train).shape == (16, 1, 10, 10)
    assert everything(data.dataset.test).shape[1] == 1
    assert data.without_labels(4, seed=0).batch(0).shape == (4, 1, 10, 10)
    assert data.dataset.mean == (round(float(everything(data.dataset.train).double().mean() / 255), 4),)


def test_one_colored_training_image_is_enough_and_a_colored_test_image_is_not(tmp_path: Path) -> None:
    class_folders(tmp_path / "test", 2, ("a", "b"))
    gray_folder(tmp_path / "train")
    gray = open_folder(tmp_path)
    assert gray.channels == 1
    assert everything(gray.test).shape[1] == 1
    before = torch.cat([everything(gray.train)] * 3, 1)
    path = tmp_path / "train" / "b" / "4.png"
    image = Image.open(path).convert("RGB")
    image.putpixel((5, 4), (1, 2, 2))
    image.save(path)
    colored = open_folder(tmp_path)
    assert (colored.channels, len(colored.mean)) == (3, 3)
    values = everything(colored.train)
    assert values.shape[1] == 3
    assert (values != before).flatten(1).any(1).sum() == 1
    assert colored.mean == tuple(round(each, 4) for each in (values.double() / 255).mean((0, 2, 3)).tolist())


def test_bad_files_count_neither_for_the_size_nor_for_the_statistics(tmp_path: Path) -> None:
    """Their headers are sound and say another size, and most files of a class are such."""
    folder = class_folders(tmp_path / "photos", 8)
    for number in range(40):
        path = folder / "bees" / f"large{number}.jpg"
        Image.effect_noise((64, 64), 50).convert("RGB").save(path)
        path.write_bytes(path.read_bytes()[:-1000])
    spoil(folder)
    found = opened(folder, skip=True).dataset
    assert isinstance(found.train, FileImages)
    for path_ in found.train.skipped:
        Path(path_).unlink()
    clean = opened(folder, skip=False).dataset
    assert found.size == clean.size == 18
    assert (found.mean, found.std, found.about) == (clean.mean, clean.std, clean.about)


def test_a_folder_of_which_nothing_can_be_decoded_is_refused(tmp_path: Path) -> None:
    for path in class_folders(tmp_path, 8).rglob("*.*"):
        path.write_text("no image")
    with pytest.raises(ValueError, match=r"must hold images for training, but none of 24 can be decoded"):
        opened(tmp_path, skip=True)


def test_what_is_kept_without_sums_is_found_out_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checking, "KEPT", 1)
    folder = class_folders(tmp_path / "photos", 8)
    expected = open_folder(folder)
    (kept,) = (tmp_path / "cache").rglob("*.json")
    for damaged in ('{"bad": {}, "prints": {}}', '{"bad": {}, "prints": {}, "sums": {"a": [1]}}'):
        kept.write_text(damaged)
        checking._known.clear()
        again = open_folder(folder)
        assert (again.mean, again.std, again.channels) == (expected.mean, expected.std, expected.channels)


def test_the_same_files_with_other_statistics_are_other_data(tmp_path: Path) -> None:
    """Runs of versions that normalized folders differently are not resumed on them."""
    folder = class_folders(tmp_path / "photos", 8)
    before = opened(folder, skip=False)
    assert before.digest == opened(folder, skip=False).digest
    path = folder / "ants" / "0.png"
    Image.new("RGB", (20, 16), "white").save(path)
    assert opened(folder, skip=False).digest != before.digest
