"""ImageNet is tested on the center of 224 pixels out of 256, and a model of it sees every image so."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from smallgroup.data import DataConfig, FileImages
from smallgroup.data.training_data import TrainingData, open_training_data
from smallgroup.exporters import about
from smallgroup.phases.training import TrainingJob, read_model
from smallgroup.phases.training.predict import predict
from smallgroup.phases.training.result import conclude
from smallgroup.runner import Runner
from smallgroup.runtime.environment import Environment
from tests.data.makers import class_folders, noise
from tests.phases.training.models import BENCHMARK, CONFIG, logits_of

SIZE = 14


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingData]:
    """A model of a small ImageNet, in images of 14 pixels."""
    root = tmp_path_factory.mktemp("data")
    for part in ("train", "val"):
        class_folders(root / "imagenet" / part, 8)
    config = CONFIG.model_copy(update={"steps_per_epoch": 10, "batch_size": 12})
    data = open_training_data(DataConfig(dataset="imagenet", data_root=root, size=SIZE), config.augmentation, seed=1)
    job = TrainingJob(config, data, BENCHMARK, seed=0)
    run = tmp_path_factory.mktemp("run")
    seconds = Runner(run, identity={}, environment=Environment.current("plain")).run(job)
    conclude(job, seconds=seconds, folder=run)
    return run, data


def shares(run: Path, images: list[str]) -> Tensor:
    """By image and class, in the order of the classes."""
    classes = read_model(run)[1].classes
    found = [{guess.name: guess.probability for guess in each.guesses} for each in predict(run, images, top=3)]
    return torch.tensor([[each[name] for name in classes] for each in found], dtype=torch.float64)


def test_the_margin_is_written_down(imagenet: tuple[Path, TrainingData]) -> None:
    model = read_model(imagenet[0])[1]
    assert model.margin == 256 / 224
    assert about(model)["margin"] == 256 / 224


def test_test_images_get_the_classes_they_get_as_a_dataset(imagenet: tuple[Path, TrainingData]) -> None:
    run, data = imagenet
    test = data.dataset.test
    assert isinstance(test, FileImages)
    expected = torch.softmax(logits_of(read_model(run)[0], test, data).double(), dim=1)
    torch.testing.assert_close(shares(run, test.paths), expected)


def test_an_image_is_resized_and_its_center_cut_out(imagenet: tuple[Path, TrainingData], tmp_path: Path) -> None:
    """80 x 64 pixels become 20 x 16, and of these the inner 14 are looked at: four pixels each, and two beside them."""
    run, data = imagenet
    inner = Image.fromarray(noise(60, 60, 3).numpy())
    touched = inner.copy()
    touched.paste("white", (2, 2, 3, 58))
    images = {}
    for name, center, frame in (("black", inner, "black"), ("white", inner, "white"), ("touched", touched, "black")):
        images[name] = Image.new("RGB", (80, 64), frame)
        images[name].paste(center, (10, 2))
        images[name].save(tmp_path / f"{name}.png")
    black, white, changed = shares(run, [str(tmp_path / f"{name}.png") for name in images])
    assert torch.equal(black, white)  # the margin does not count
    assert not torch.allclose(black, changed)  # all else does

    seen = images["black"].resize((20, 16), Image.Resampling.BILINEAR).crop((3, 1, 17, 15))
    inputs = (np.asarray(seen) / 255 - data.dataset.mean) / data.dataset.std
    with torch.no_grad():
        logits = read_model(run)[0](torch.from_numpy(inputs.transpose(2, 0, 1)[None]).float())
    torch.testing.assert_close(black, torch.softmax(logits[0].double(), dim=0), rtol=1e-4, atol=1e-6)
