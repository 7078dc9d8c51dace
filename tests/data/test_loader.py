from collections import Counter
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.data import Augmentation, DataError, FileImages, Reader, Stream, TensorImages, open_dataset, ordered
from smallgroup.data.loader import LabeledImages, batch_bounds
from tests.data.makers import class_folders, noise, tensor_images

PLAIN: dict[str, Any] = {"mean": (0.0,) * 3, "std": (1.0,) * 3}
FULL = Augmentation(smallest_area=0.2, crop_padding=2, cutout=4, color_jitter=True)


def labeled(count: int, batch_size: int, augmentation: Augmentation = FULL, **more: Any) -> Stream[LabeledImages]:
    settings = {"seed": 0, "purpose": "train", **PLAIN, **more}
    return Stream(
        tensor_images(count), torch.arange(count), batch_size=batch_size, augmentation=augmentation, **settings
    )


@pytest.mark.parametrize(
    ("total", "size", "expected"),
    [
        (10, 5, [5, 5]),
        (12, 5, [5, 5, 2]),
        (11, 5, [5, 6]),
        (5, 5, [5]),
        (6, 5, [6]),
        (3, 1, [1, 1, 1]),
        (1, 1, [1]),
        (1, 4, [1]),
        (3, 2, [3]),
    ],
)
def test_batches_hold_every_image_and_none_is_left_alone(total: int, size: int, expected: list[int]) -> None:
    bounds = batch_bounds(total, size)
    assert [high - low for low, high in bounds] == expected
    assert [place for low, high in bounds for place in range(low, high)] == list(range(total))


@pytest.mark.parametrize(("count", "batch_size"), [(40, 8), (43, 8), (41, 8), (9, 9)])
def test_every_sample_occurs_exactly_once_per_epoch(count: int, batch_size: int) -> None:
    stream = labeled(count, batch_size, Augmentation.none())
    for epoch in range(3):
        steps = range(epoch * len(stream), (epoch + 1) * len(stream))
        seen = [stream.batch(step) for step in steps]
        # The first pixel of an image tells which one it is.
        numbers = torch.cat([inputs[:, 0, 0, 0] for inputs, _ in seen]).mul(255).round().long()
        assert sorted(numbers.tolist()) == list(range(count))
        assert torch.equal(torch.cat([labels for _, labels in seen]), numbers % 3)
        indices = torch.cat([stream.indices_of(step) for step in steps])
        assert torch.equal(indices, numbers)


def test_only_the_given_images_are_shown() -> None:
    images = tensor_images(50)
    chosen = torch.tensor([3, 7, 20, 21, 49, 8])
    stream = Stream(
        images, chosen, batch_size=4, seed=0, purpose="x", augmentation=Augmentation.none(), labeled=False, **PLAIN
    )
    inputs = torch.cat([stream.batch(step) for step in range(len(stream))])
    assert sorted(inputs[:, 0, 0, 0].mul(255).round().int().tolist()) == sorted(chosen.tolist())


def same(a: LabeledImages, b: LabeledImages) -> bool:
    return torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


def test_random_access_equals_iteration_in_any_order() -> None:
    in_turn = list(islice(labeled(43, 8).batches(), 14))
    stream = labeled(43, 8)
    for step in (13, 0, 5, 6, 12, 5):
        assert same(stream.batch(step), in_turn[step])
    for step, batch in enumerate(islice(labeled(43, 8).batches(start=9), 5), 9):
        assert same(batch, in_turn[step])


def test_epochs_seeds_purposes_and_steps_differ() -> None:
    stream = labeled(48, 8)
    assert not torch.equal(stream.indices_of(0), stream.indices_of(len(stream)))
    for other in (labeled(48, 8, seed=1), labeled(48, 8, purpose="validation")):
        assert not torch.equal(stream.indices_of(0), other.indices_of(0))
    # Where all images are the same, batches differ by their augmentation alone.
    twins = TensorImages(noise(1, 3, 8, 8).expand(16, -1, -1, -1), torch.zeros(16, dtype=torch.int64))
    settings: dict[str, Any] = {"purpose": "train", "augmentation": Augmentation(crop_padding=2), **PLAIN}
    one, other = (Stream(twins, torch.arange(16), batch_size=8, seed=seed, **settings) for seed in (0, 1))
    shown = [one.batch(0)[0], one.batch(1)[0], one.batch(2)[0], other.batch(0)[0]]
    assert all(not torch.equal(a, b) for a, b in combinations(shown, 2))


def test_types_and_statistics() -> None:
    inputs, labels = labeled(9, 9, Augmentation.none(), dtype=torch.float64, mean=(0.5,) * 3, std=(0.25,) * 3).batch(0)
    assert inputs.dtype == torch.float64
    assert labels.dtype == torch.int64
    images = tensor_images(9)
    expected = (images.pixels.double() / 255 - 0.5) / 0.25
    first = inputs[:, 0, 0, 0].mul(0.25).add(0.5).mul(255).round().long()
    torch.testing.assert_close(inputs, expected[first])


def test_wrong_use_gets_a_sentence() -> None:
    with pytest.raises(DataError, match="a batch for train needs 8 images, but there are only 7"):
        labeled(7, 8)
    with pytest.raises(DataError, match="batch_size >= 1 and workers >= 0 must hold, but got batch_size=0"):
        labeled(7, 0)
    with pytest.raises(DataError, match="workers=-1"):
        labeled(7, 2, workers=-1)
    with pytest.raises(DataError, match="step=-1"):
        labeled(7, 2).batch(-1)
    unlabeled = TensorImages(noise(4, 3, 8, 8), None)
    settings: dict[str, Any] = {"seed": 0, "purpose": "train", "augmentation": FULL, **PLAIN}
    with pytest.raises(DataError, match="images for train must have labels"):
        Stream(unlabeled, torch.arange(4), batch_size=2, **settings)
    with pytest.raises(DataError, match="must be there and have labels"):
        next(ordered(unlabeled, torch.arange(4), batch_size=2, **PLAIN))
    with pytest.raises(DataError, match="must be there and have labels"):
        next(ordered(tensor_images(4), torch.arange(0), batch_size=2, **PLAIN))


def test_a_pass_in_order_shows_everything_once_as_it_is() -> None:
    images, indices = tensor_images(23), torch.tensor([5, 2, 9, 22, 0])
    batches = list(ordered(images, indices, batch_size=2, **PLAIN))
    assert [len(labels) for _, labels in batches] == [2, 3]
    assert torch.equal(torch.cat([labels for _, labels in batches]), indices % 3)
    torch.testing.assert_close(torch.cat([inputs for inputs, _ in batches]), images.pixels[indices].float() / 255)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> FileImages:
    data = open_dataset(f"folder:{class_folders(tmp_path_factory.mktemp('folder'), 10)}", Path(), size=12)
    assert isinstance(data.train, FileImages)
    assert len(data.train) == 24
    return data.train


def from_files(files: FileImages, workers: int, augmentation: Augmentation = FULL) -> Stream[LabeledImages]:
    settings: dict[str, Any] = {"seed": 0, "purpose": "train", "augmentation": augmentation, **PLAIN}
    return Stream(files, torch.arange(24), batch_size=5, workers=workers, **settings)


@pytest.mark.parametrize("augmentation", [FULL, Augmentation(crop_padding=1)], ids=["parts", "crop"])
def test_any_number_of_workers_gives_the_same_bits(files: FileImages, augmentation: Augmentation) -> None:
    expected = [from_files(files, 0, augmentation).batch(step) for step in range(12)]
    assert not torch.equal(expected[0][0], expected[5][0])
    for workers in (1, 2):
        batches = from_files(files, workers, augmentation).batches()
        assert all(same(a, b) for a, b in zip(expected, batches, strict=False))
        batches.close()
        resumed = from_files(files, workers, augmentation).batches(start=7)
        assert same(next(resumed), expected[7])
        resumed.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_reader_gives_any_step_and_reads_ahead(files: FileImages, workers: int) -> None:
    reader, stream = Reader(from_files(files, workers)), from_files(files, 0)
    for step in (0, 1, 2, 2, 7, 8, 0):
        assert same(reader.batch(step), stream.batch(step))
    ahead = reader._ahead
    reader.batch(1)
    assert reader._ahead is ahead
    reader.close()
    assert same(reader.batch(3), stream.batch(3))
    reader.close()


def test_a_pass_in_order_is_the_same_with_workers(files: FileImages) -> None:
    alone, together = (
        list(ordered(files, torch.arange(24), batch_size=5, workers=workers, **PLAIN)) for workers in (0, 2)
    )
    assert len(alone) == len(together) == 5
    assert all(same(a, b) for a, b in zip(alone, together, strict=True))
    assert files.labels is not None
    assert torch.equal(torch.cat([labels for _, labels in together]), files.labels)


def test_every_file_once_per_epoch_with_workers(files: FileImages) -> None:
    stream = from_files(files, 2)
    batches = stream.batches()
    counts = Counter(int(label) for _, labels in islice(batches, len(stream)) for label in labels)
    batches.close()
    assert counts == {0: 8, 1: 8, 2: 8}


def test_results_do_not_depend_on_threads() -> None:
    stream = labeled(96, 96)
    expected = stream.batch(1)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert same(stream.batch(1), expected)
    finally:
        torch.set_num_threads(threads)


def test_streams_of_other_purposes_seeds_and_steps_augment_differently() -> None:
    """On images that are all the same, what differs is the augmentation."""
    image = torch.arange(192, dtype=torch.uint8).view(1, 3, 8, 8)
    images = TensorImages(image.expand(32, -1, -1, -1), torch.zeros(32, dtype=torch.int64))

    def batch(seed: int, purpose: str, step: int) -> torch.Tensor:
        stream = Stream(
            images,
            torch.arange(32),
            batch_size=32,
            seed=seed,
            purpose=purpose,
            augmentation=Augmentation(crop_padding=2, flip=True, cutout=4),
            mean=(0.5,) * 3,
            std=(0.5,) * 3,
        )
        return stream.batch(step)[0]

    found = [batch(*key) for key in [(0, "train", 0), (0, "validation", 0), (1, "train", 0), (0, "train", 1)]]
    assert all(not torch.equal(found[0], other) for other in found[1:])
    assert torch.equal(found[0], batch(0, "train", 0))


def test_an_ordered_pass_needs_batches_of_something() -> None:
    images = tensor_images(8)
    with pytest.raises(DataError, match="batch_size >= 1 must hold, but got batch_size=0"):
        next(ordered(images, torch.arange(8), batch_size=0, mean=(0.5,), std=(0.5,)))
