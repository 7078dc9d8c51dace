"""The measures of an evaluation, against closed forms on logits made by hand."""

import math

import pytest
import torch
from torch import Tensor

from smallgroup.data import Augmentation, Dataset, TensorImages
from smallgroup.phases.evaluate import Evaluation, evaluate


def ranked(classes: int) -> tuple[TensorImages, Tensor]:
    """Images whose pixel is their number, r + 1 of them with r classes before their own; and the logits of each."""
    ranks = torch.cat([torch.full((rank + 1,), rank) for rank in range(classes)])
    numbers = torch.arange(len(ranks))
    labels = 3 * numbers % classes
    places = (torch.arange(classes) - labels[:, None] + ranks[:, None]) % classes
    return TensorImages(numbers.to(torch.uint8).view(-1, 1, 1, 1), labels), -places.double()


@pytest.mark.parametrize("classes", [2, 5, 6, 8, 14])
def test_every_measure_has_its_closed_form(classes: int) -> None:
    images, logits = ranked(classes)
    names = tuple(f"class {k}" for k in range(classes))
    dataset = Dataset("made", names, images, images, (0.0,), (1.0,), 1, 1, Augmentation.none())

    def logits_of(inputs: Tensor) -> Tensor:
        return logits[(255 * inputs).round().long().flatten()]

    found = evaluate(logits_of, images, dataset, torch.arange(len(images)))
    count = classes * (classes + 1) / 2
    assert found.error == pytest.approx(100 * (1 - 1 / count))
    assert found.error_top5 == pytest.approx(100 * sum(rank + 1 for rank in range(5, classes)) / count)
    mean_rank = sum(rank * (rank + 1) for rank in range(classes)) / count
    assert found.loss == pytest.approx(mean_rank + math.log(sum(math.exp(-place) for place in range(classes))))
    assert images.labels is not None
    expected = torch.zeros(classes, classes, dtype=torch.int64)
    for label, row in zip(images.labels.tolist(), logits, strict=True):
        expected[label, int(row.argmax())] += 1
    assert found.confusion == expected.tolist()
    assert found.given == [int(row.argmax()) for row in logits]


def test_of_classes_with_equal_logits_the_first_is_given() -> None:
    """As `argmax` does it, and so the programs that users run: logits of int8 files have ties."""
    labels = torch.arange(40) % 4
    images = TensorImages(torch.zeros(40, 1, 1, 1, dtype=torch.uint8), labels)
    dataset = Dataset("made", tuple("abcdefg"), images, images, (0.0,), (1.0,), 1, 1, Augmentation.none())
    tied = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    found = evaluate(lambda inputs: tied.expand(len(inputs), 7), images, dataset, torch.arange(40))
    assert found.given == [1] * 40
    assert found.error == pytest.approx(75)


def test_the_balanced_error_is_the_mean_over_the_classes_that_have_images() -> None:
    found = Evaluation(0.0, 0.0, 0.0, [[90, 10, 0], [3, 1, 0], [0, 0, 0]])
    assert found.balanced_error == pytest.approx((10 + 75) / 2)
