"""Learning rates and drop path of a training, against the closed forms of the publications."""

import math
from typing import Any

import pytest

from smallgroup.config import resolve
from smallgroup.phases.training import TrainingConfig
from tests.configs import training_config


def of_paper(dataset: str) -> TrainingConfig:
    return resolve({"recipe": "paper", "dataset": dataset}).training


@pytest.mark.parametrize("epoch", [0, 1, 150, 300, 599])
def test_cifar_follows_a_cosine_to_zero(epoch: int) -> None:
    expected = 0.025 * 0.5 * (1 + math.cos(math.pi * epoch / 600))
    assert of_paper("cifar10").rate(epoch) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("epoch", "share"), [(0, 1.0), (1, (2 + 2**0.5) / 4), (2, 0.5), (3, (2 - 2**0.5) / 4)])
def test_a_cosine_falls_to_the_lowest_rate(epoch: int, share: float) -> None:
    """The share of the way from the lowest rate to the highest, at multiples of 45 degrees."""
    config = training_config(epochs=4, lr=0.1, min_lr=0.02)
    assert config.rate(epoch) == pytest.approx(0.02 + 0.08 * share)


@pytest.mark.parametrize(("epoch", "drop"), [(0, 0.0), (300, 0.1), (599, 0.2 * 599 / 600)])
def test_drop_path_grows_linearly(epoch: int, drop: float) -> None:
    assert of_paper("cifar10").drop(epoch) == pytest.approx(drop)


@pytest.mark.parametrize(
    ("epoch", "rate"),
    [
        (0, 0.5 * 1 / 5),
        (3, 0.5 * 4 / 5),
        (4, 0.5),
        (5, 0.5 * 240 / 245),
        (100, 0.5 * 145 / 245),
        (244, 0.5 * 1 / 245),
        (245, 0.5 * 5 / (5 * 245)),
        (249, 0.5 * 1 / (5 * 245)),
    ],
)
def test_imagenet_rises_and_falls_in_lines(epoch: int, rate: float) -> None:
    assert of_paper("imagenet").rate(epoch) == pytest.approx(rate)


@pytest.mark.parametrize("epoch", [0, 1, 2, 3, 4, 5, 100])
def test_warm_up_of_p_darts_scales_the_rate_that_has_fallen(epoch: int) -> None:
    """Its code, and that of DARTS-: the line from lr to 0 over 245 epochs, times (epoch + 1) / 5 in the first five."""
    expected = 0.5 * (250 - 5 - epoch) / (250 - 5) * min(1, (epoch + 1) / 5)
    for method in ("p-darts", "darts-minus"):
        training = resolve({"recipe": "paper", "dataset": "imagenet", "method": method}).training
        assert training.rate(epoch) == pytest.approx(expected, rel=1e-12)
    cosine = training_config(epochs=10, lr=0.1, warmup_epochs=5, warmup_rate="decayed")
    falling = 0.05 * (1 + math.cos(math.pi * min(epoch, 9) / 10))
    assert cosine.rate(min(epoch, 9)) == pytest.approx(falling * min(1, (epoch + 1) / 5))


@pytest.mark.parametrize("epochs", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_short_trainings_have_rates_too(epochs: int, schedule: Any) -> None:
    config = training_config(epochs=epochs, schedule=schedule, lr=0.1)
    rates = [config.rate(epoch) for epoch in range(epochs)]
    assert rates[0] == pytest.approx(0.1)
    assert all(0 < rate <= 0.1 for rate in rates)
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    ("epoch", "passed", "rate"),
    [(0, 0.0, 0.004), (0, 0.5, 0.052), (1, 0.0, 0.1), (2, 0.5, 0.055), (3, 1.0, 0.01)],
)
def test_one_cycle_rises_in_a_line_and_falls_along_a_cosine(epoch: int, passed: float, rate: float) -> None:
    """From 4 % of the largest rate to all of it in a quarter of the steps, then half a cosine to the lowest."""
    config = training_config(epochs=4, lr=0.1, min_lr=0.01, schedule="one-cycle")
    assert config.rate(epoch, passed) == pytest.approx(rate)


def test_the_paper() -> None:
    cifar, imagenet = of_paper("cifar10"), of_paper("imagenet")
    assert (cifar.epochs, cifar.batch_size, cifar.momentum, cifar.weight_decay, cifar.clip) == (600, 96, 0.9, 3e-4, 5.0)
    assert (cifar.network.cells, cifar.network.channels, cifar.network.auxiliary) == (20, 36, "two-norms")
    assert (cifar.auxiliary_weight, cifar.drop_path, cifar.augmentation.cutout) == (0.4, 0.2, 16)
    assert (imagenet.epochs, imagenet.batch_size, imagenet.lr, imagenet.weight_decay) == (250, 1024, 0.5, 3e-5)
    assert (imagenet.network.cells, imagenet.network.channels) == (14, 48)
    assert (imagenet.label_smoothing, imagenet.drop_path, imagenet.augmentation.color_jitter) == (0.1, 0.0, True)
    assert (imagenet.schedule, imagenet.warmup_epochs, imagenet.augmentation.cutout) == ("linear", 5, 0)


@pytest.mark.parametrize("learners", [1, 2])
@pytest.mark.parametrize(
    ("method", "head"),
    [("darts", "one-norm"), ("pc-darts", "one-norm"), ("p-darts", "two-norms"), ("darts-minus", "two-norms")],
)
def test_the_head_for_imagenet_is_that_of_the_method(method: str, head: str, learners: int) -> None:
    given = {"recipe": "paper", "method": method, "learners": learners}
    assert resolve({**given, "dataset": "imagenet"}).training.network.auxiliary == head
    assert resolve({**given, "dataset": "cifar10"}).training.network.auxiliary == "two-norms"
