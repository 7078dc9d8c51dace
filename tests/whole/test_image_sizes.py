"""The size of images: `--size` for a whole run, `search.image_size` for the search alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import smallgroup
from smallgroup.cli import main
from smallgroup.cli.describe import run as describe
from smallgroup.config import CONFIG, load_own, resolve
from smallgroup.data import Augmentation, AugmentationConfig, DataConfig, TensorImages, open_search_data
from smallgroup.data.training_data import open_training_data
from smallgroup.jobs import make_job, make_training
from smallgroup.phases.search.brief import brief
from smallgroup.phases.search.memory import activations
from smallgroup.spaces import genotypes
from tests.data.makers import cifar10_folder, cifar100_folder, class_folders
from tests.data.test_normalization import gray_folder

CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|skip_connect~0|none~1|nor_conv_3x3~2|"
SMALL: dict[str, Any] = {
    "space": {"name": "nas-bench-201", "channels": 2},
    "hypergradient": "first-order",
    "search": {"epochs": 1, "steps_per_epoch": 2, "batch_size": {"train": 4, "unlabeled": 4, "validation": 4}},
    "training": {"epochs": 1, "steps_per_epoch": 2, "batch_size": 4, "network": {"channels": 2}},
}


def with_search(**keys: Any) -> dict[str, Any]:
    return {**SMALL, "search": {**SMALL["search"], **keys}}


def test_a_search_sees_smaller_images_and_a_training_does_not(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    cifar100_folder(tmp_path)
    config = DataConfig(
        dataset="cifar10", unlabeled="cifar100", data_root=tmp_path, augmentation=AugmentationConfig(cutout=16)
    )
    data = open_search_data(config, seed=0, image_size=16)
    assert data.train(8, seed=0).batch(0)[0].shape == (8, 3, 16, 16)
    assert data.validation(8, seed=0).batch(0)[0].shape == (8, 3, 16, 16)
    assert data.without_labels(8, seed=0).batch(0).shape == (8, 3, 16, 16)
    assert data.augmentation == Augmentation(crop_padding=2, cutout=8)
    assert (data.dataset.size, data.full_size) == (16, 32)
    whole = open_search_data(config, seed=0)
    assert (whole.dataset.size, whole.full_size) == (32, 32)
    assert (data.dataset.mean, data.digest) == (whole.dataset.mean, whole.digest)
    larger = open_search_data(config, seed=0, image_size=64)
    assert (larger.dataset.size, larger.augmentation) == (32, whole.augmentation)
    training = open_training_data(config, config.augmentation, seed=0)
    assert (training.dataset.size, training.augmentation) == (32, Augmentation(crop_padding=4, cutout=16))


@pytest.mark.parametrize(
    ("padding", "of", "size", "scaled"), [(4, 32, 16, 2), (8, 64, 16, 2), (1, 8, 4, 1), (0, 32, 16, 0), (4, 32, 31, 3)]
)
def test_borders_shrink_in_proportion(padding: int, of: int, size: int, scaled: int) -> None:
    assert Augmentation(crop_padding=padding).scaled(size, of).crop_padding == scaled


def test_smaller_images_are_averages_and_always_the_same() -> None:
    """Every second pixel of a fine pattern would be all black, or all white."""
    pixels = torch.zeros(2, 1, 32, 32, dtype=torch.uint8)
    pixels[:, :, ::2, ::2] = pixels[:, :, 1::2, 1::2] = 255
    images = TensorImages(pixels, torch.tensor([0, 1])).resized(16)
    small = images.fetch(torch.tensor([1]))
    assert small.shape == (1, 1, 16, 16)
    assert (small.int() - 127).abs().max() <= 16
    assert torch.equal(small, images.fetch(torch.tensor([0])))
    assert images.labels is not None


def test_smaller_images_of_files_are_those_of_a_folder_of_that_size(tmp_path: Path) -> None:
    config = DataConfig(dataset=f"folder:{class_folders(tmp_path, 12)}", size=16)
    small = open_search_data(config, seed=0, image_size=8)
    given = open_search_data(config.model_copy(update={"size": 8}), seed=0)
    indices = torch.arange(6)
    assert torch.equal(small.dataset.train.fetch(indices), given.dataset.train.fetch(indices))
    assert small.augmentation.crop_padding == given.augmentation.crop_padding == 1
    assert small.dataset.mean == open_search_data(config, seed=0).dataset.mean


def test_networks_memory_and_what_is_said_follow() -> None:
    whole, small = (make_job(resolve(with_search(image_size=size))) for size in (None, 4))
    assert [job.searchers[0].relaxed.space.images.shape for job in (whole, small)] == [(1, 8, 8), (1, 4, 4)]
    assert activations(small.searchers[0]) < activations(whole.searchers[0]) / 2
    said = "\n".join(brief(small))
    assert "10 classes, 4x4 pixels" in said
    assert "images: 4x4 in the search (search.image_size), else 8x8" in said
    assert "images:" not in "\n".join(brief(whole))
    config = resolve(with_search(image_size=4))
    training = make_training(config, genotypes.resolve(CELL)[1])
    assert training.data.dataset.size == 8


def test_what_is_told_of_the_network_to_be_trained_is_at_the_full_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smallgroup.search(with_search(image_size=4), out=tmp_path / "run", progress=False)
    facts = json.loads((tmp_path / "run" / "facts.json").read_text())
    assert facts["image"] == {"channels": 1, "size": 8, "size_in_search": 4}
    describe([str(tmp_path / "run")], None, "auto", as_json=True)
    (told,) = json.loads(capsys.readouterr().out)
    trained = smallgroup.train(tmp_path / "run", {}, progress=False)
    assert told["multiply_adds"] == trained.multiply_adds


def test_labelers_see_the_size_that_they_were_searched_with(tmp_path: Path) -> None:
    smallgroup.search({**with_search(image_size=4), "lambda": 0}, out=tmp_path / "first", progress=False)
    first = str(tmp_path / "first")
    assert make_job(resolve(with_search(labelers=first, image_size=4))).labelers is not None
    with pytest.raises(ValueError, match=r"searched with, 4x4, but this search has 8x8; search.image_size=4 gives"):
        make_job(resolve(with_search(labelers=first)))


def test_the_key_is_part_of_what_a_search_is_known_by_where_it_is_given() -> None:
    assert "image_size" not in resolve({"recipe": "paper"}).of_search()["search"]
    assert resolve({"search": {"image_size": 16}}).of_search()["search"]["image_size"] == 16
    with pytest.raises(ValueError, match=r"search.image_size"):
        resolve({"search": {"image_size": 0}})


def test_folders_are_not_brought_to_a_size_by_the_recipe() -> None:
    assert resolve({"dataset": "folder:photos"}).data.size is None
    assert resolve({"dataset": "folder:photos", "size": 48}).data.size == 48
    assert resolve({"dataset": "imagenet"}).data.size == 32


@pytest.mark.parametrize("command", ["search", "run"])
def test_the_size_is_an_option_and_is_told_with_the_reason(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = gray_folder(tmp_path / "images", 20), tmp_path / "run"
    (tmp_path / "keys.yaml").write_text(resolve({**SMALL, "dataset": f"folder:{folder}"}).to_yaml())
    assert main([command, "--config", str(tmp_path / "keys.yaml"), "--out", str(out), "--size=8"]) == 0
    said = capsys.readouterr().err
    reason = "the files have 11x10 in the median, their short sides 9 to 11; gray: 1 channel"
    places = 4 if command == "run" else 1  # the search and three trainings
    assert said.count(f"images: 8x8, as given by --size (data.size); {reason}") == places
    assert load_own(out / CONFIG)["data"]["size"] == 8
    facts = json.loads((out / "facts.json").read_text())
    assert facts["image"] == {"channels": 1, "size": 8, "size_in_search": 8}
    assert f"images: 8x8, as given by --size (data.size); {reason}" in facts["notes"]
    if command == "search":
        assert main(["train", str(out), "--size=6"]) == 0
        assert "images: 6x6, as given" in capsys.readouterr().err
        assert load_own(out / "training" / CONFIG)["data"]["size"] == 6
