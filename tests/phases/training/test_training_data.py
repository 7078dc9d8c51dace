"""What a training sees of its images: the augmentation of the training, over that of the data."""

from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from smallgroup.config import resolve
from smallgroup.data import AugmentationConfig, DataConfig
from smallgroup.data.training_data import open_training_data
from smallgroup.jobs import make_training
from tests.data.makers import cifar10_folder
from tests.phases.training.models import DARTS

STILL = AugmentationConfig(crop_padding=0, flip=False)
"""Images stay where they are, so that nothing else changes a batch."""


def batch(data: DataConfig, augmentation: AugmentationConfig) -> Tensor:
    return open_training_data(data, augmentation, seed=1).train(40, seed=3).batch(1)[0]


def check_squares(found: Tensor, plain: Tensor, side: int) -> None:
    """One rectangle is blank in each image, a square of this side but for what lies outside; the rest is as it was."""
    hidden = (found == 0).all(dim=1)
    assert torch.equal(found, plain.masked_fill(hidden[:, None], 0))
    rows, columns = hidden.any(dim=2), hidden.any(dim=1)
    assert torch.equal(hidden, rows[:, :, None] & columns[:, None, :])
    for lines in (rows, columns):
        lengths = lines.sum(dim=1)
        assert int(lengths.min()) >= side // 2
        assert int(lengths.max()) == side
        assert int((lines[:, 1:] != lines[:, :-1]).sum(dim=1).max()) <= 2  # in one piece


def test_a_training_with_cutout_sees_blank_squares(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    data = DataConfig(dataset="cifar10", data_root=tmp_path, augmentation=STILL)
    plain = batch(data, AugmentationConfig())
    assert not (plain == 0).all(dim=1).any()
    check_squares(batch(data, AugmentationConfig(cutout=16)), plain, 16)


def test_the_augmentation_of_the_training_stands_above_that_of_the_data(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    still = DataConfig(dataset="cifar10", data_root=tmp_path, augmentation=STILL)
    data = still.model_copy(update={"augmentation": STILL.model_copy(update={"cutout": 6})})
    plain = batch(still, AugmentationConfig())
    check_squares(batch(data, AugmentationConfig()), plain, 6)
    check_squares(batch(data, AugmentationConfig(cutout=16)), plain, 16)
    assert torch.equal(batch(data, AugmentationConfig(cutout=0)), plain)


def test_the_recipe_of_the_paper_cuts_out_squares_of_16_pixels(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    given = {
        "recipe": "paper",
        "dataset": "cifar10",
        "data_root": str(tmp_path),
        "data": {"augmentation": STILL.model_dump()},
    }
    small = ["training.network.channels=2", "training.network.cells=3", "training.batch_size=50"]
    trained, plain = (
        make_training(resolve(given, [*small, *more]), DARTS) for more in ([], ["training.augmentation.cutout=0"])
    )
    check_squares(trained.batches.batch(0)[0], plain.batches.batch(0)[0], 16)


def test_a_training_with_color_jitter_sees_other_colors(tmp_path: Path) -> None:
    """Of an even gray only the brightness can change: by a factor of 0.6 to 1.4 for each image."""
    for number in range(100):
        path = tmp_path / f"class {number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (100, 100, 100)).save(path)
    data = DataConfig(dataset=f"folder:{tmp_path}", augmentation=STILL)
    opened = open_training_data(data, AugmentationConfig(color_jitter=True), seed=1).dataset
    mean, std = (torch.tensor(each).view(1, -1, 1, 1) for each in (opened.mean, opened.std))

    def grays(jitter: bool) -> list[int]:
        pixels = (255 * (batch(data, AugmentationConfig(color_jitter=jitter)) * std + mean)).round()
        assert bool((pixels == pixels[:, :1, :1, :1]).all())
        return [int(gray) for gray in pixels[:, 0, 0, 0]]

    assert set(grays(False)) == {100}
    seen = grays(True)
    assert min(seen) >= 60
    assert max(seen) <= 140
    assert max(seen) - min(seen) > 40
    assert len(set(seen)) > 20
