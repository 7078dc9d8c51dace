"""Real images: a short training that beats chance, and the networks of the paper on images of ImageNet's size."""

import os
from pathlib import Path

import pytest
import torch
from PIL import Image

import smallgroup
from smallgroup.config import resolve
from smallgroup.jobs import make_job, make_training
from smallgroup.phases.training import TrainingJob
from smallgroup.runtime import stream
from smallgroup.spaces.count import parameters
from smallgroup.spaces.darts.published import published

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_3x3~2|"


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_a_short_training_on_cifar_beats_chance() -> None:
    network = {"channels": 16, "cells_per_stage": 1}
    training = {"epochs": 2, "steps_per_epoch": 60, "batch_size": 64, "network": network}
    result = smallgroup.train(CELL, {"dataset": "cifar10", "training": training})
    assert result.test_error is not None
    assert result.test_error < 70  # chance is 90
    assert result.class_errors is not None
    assert len(result.class_errors) == 10


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of ImageNet's form: 3 classes of 16 noisy pictures of 240x260 pixels, and 2 to test on."""
    root = tmp_path_factory.mktemp("data")
    generator = stream("pictures")
    for part, count in (("train", 16), ("val", 2)):
        for name in ("n01", "n02", "n03"):
            folder = root / "imagenet" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = torch.randint(256, (240, 260, 3), generator=generator, dtype=torch.uint8)
                Image.fromarray(pixels.numpy()).save(folder / f"{number}.jpg")
    return root


def test_a_search_step_of_the_paper_on_images_of_224_pixels(imagenet: Path) -> None:
    sizes = {"train": 2, "unlabeled": 2, "validation": 2}
    job = make_job(
        resolve(
            {
                "recipe": "paper",
                "dataset": "imagenet",
                "data_root": str(imagenet),
                "hypergradient": "first-order",
                "search": {"epochs": 1, "steps_per_epoch": 1, "batch_size": sizes},
            }
        )
    )
    before = {name: tensor.clone() for name, tensor in job.searchers[1].learner.architecture.items()}
    job.take("all")
    assert job.searchers[0].relaxed.space.images.shape == (3, 224, 224)
    for name, tensor in job.searchers[1].learner.architecture.items():
        assert not torch.equal(tensor, before[name])


def test_a_training_step_of_the_paper_on_images_of_224_pixels(imagenet: Path) -> None:
    given = {"recipe": "paper", "dataset": "imagenet", "data_root": str(imagenet), "space": "darts"}
    config = resolve(given, ["training.batch_size=2", "training.steps_per_epoch=1", "training.epochs=1"])
    job = make_training(config, published()["DARTS_V2"])
    assert isinstance(job, TrainingJob)
    before = job.network.classifier.weight.clone()
    rows = job.advance()
    assert job.finished
    assert rows is not None
    assert rows[0]["auxiliary_loss"] > 0
    assert not torch.equal(before, job.network.classifier.weight)
    # All but the classifier is that of the paper: 4,718,752 parameters with 1,000 classes.
    assert parameters(job.network) == 4_718_752 - (1000 - 3) * (768 + 1)
    assert job.test().error >= 0
