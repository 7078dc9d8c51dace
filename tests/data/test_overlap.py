"""Images that occur in two parts, found by their pixels."""

import shutil
from pathlib import Path

import torch
from PIL import Image

from smallgroup.data import DataConfig, TensorImages, open_search_data
from smallgroup.data.overlap import everything, overlap
from smallgroup.data.training_data import open_training_data
from tests.data.makers import class_folders, noise, picture


def test_test_images_that_are_trained_on_are_told(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", 6)
    for name in ("ants", "bees", "cats"):
        picture(tmp_path / "val" / name / "own.png", key=f"val {name}")
    config = DataConfig(dataset=f"folder:{tmp_path}", unlabeled="train")
    data = open_search_data(config, seed=0)
    assert not [note for note in data.notes if "also occur" in note]
    shutil.copy(tmp_path / "train" / "ants" / "0.png", tmp_path / "val" / "ants" / "copy.png")
    with Image.open(tmp_path / "train" / "cats" / "2.png") as image:  # the same pixels in another file
        image.save(tmp_path / "val" / "bees" / "again.bmp")
    (note,) = (note for note in open_search_data(config, seed=0).notes if "also occur" in note)
    assert note.startswith("2 of 5 test images also occur among the training images: val/ants/copy.png = ")
    assert "train/ants/0.png" in note
    assert "val/bees/again.bmp = train/cats/2.png" in note
    assert note in open_training_data(config, config.augmentation, seed=0).notes


def test_validation_images_that_are_trained_on_are_told(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", 6)
    picture(tmp_path / "val" / "ants" / "own.png", key="own")
    for number in range(12):
        picture(tmp_path / "train" / "ants" / f"same{number}.png", key="same")
    notes = open_search_data(DataConfig(dataset=f"folder:{tmp_path}", unlabeled="train"), seed=0).notes
    (note,) = (note for note in notes if "also occur" in note)
    assert "validation images also occur among the training images: train/ants/same" in note


def test_images_in_memory() -> None:
    pixels = noise(6, 1, 4, 4)
    pixels[4] = pixels[1]
    images = TensorImages(pixels, torch.zeros(6, dtype=torch.int64))
    assert overlap((images, [4, 5]), (images, [0, 1, 2])) == [(4, 1)]
    assert overlap((images, [0]), (images, [3])) == []
    assert len(overlap((images, everything(images)), (images, everything(images)))) == 6
