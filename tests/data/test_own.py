"""Data of one's own in Python: which forms are taken, what is refused, and what a dataset is made of."""

import io
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset

from smallgroup.data import DataError, OwnData, split
from smallgroup.data.augment import Parts
from smallgroup.data.decoding import DRAWS
from smallgroup.data.images import TensorImages
from smallgroup.data.pixels import pixels_of
from smallgroup.data.read_images import ReadImages, Seen
from smallgroup.runtime import stream
from tests.data.makers import noise

LABELS = np.arange(30) % 3


class Pairs(TorchDataset[Any]):
    """Anything under numbers, as programs for torch have it."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        return self.items[place]


def pixels(count: int = 30, channels: int = 3, height: int = 8, width: int = 8) -> Tensor:
    return noise(count, channels, height, width)


def everything(images: Any) -> Tensor:
    found: Tensor = images.fetch(torch.arange(len(images)))
    return found


FORMS = {
    "uint8, channels first": lambda x: x.numpy(),
    "uint8, channels last": lambda x: x.movedim(1, -1).numpy(),
    "a tensor": lambda x: x,
    "a tensor, channels last": lambda x: x.movedim(1, -1),
    "float32": lambda x: x.float() / 255,
    "float64": lambda x: x.double().numpy() / 255,
    "float64 of the other byte order": lambda x: (x.double().numpy() / 255).astype(">f8"),
}


@pytest.mark.parametrize("form", FORMS)
def test_arrays_of_every_form_are_the_same_pixels(form: str) -> None:
    given = pixels()
    data = OwnData((FORMS[form](given), LABELS), test=(given[:6], LABELS[:6]))
    assert torch.equal(everything(data.open().train), given)
    assert data.digest == OwnData((given, LABELS), test=(given[:6], LABELS[:6])).digest


def test_floats_are_rounded_to_the_nearest_of_256_values() -> None:
    values = torch.tensor([[0.0, 0.4 / 255, 0.6 / 255], [0.3, 254.6 / 255, 1.0]])
    for form in (values, values.double(), values.double().numpy()):
        assert pixels_of(form, "it").tolist() == [[[0, 0, 1], [76, 255, 255]]]
    assert pixels_of(values.half(), "it").shape == (1, 2, 3)


def test_gray_arrays_may_leave_channels_out() -> None:
    given = pixels(channels=1)
    for form in (given, given[:, 0], given.movedim(1, -1), given[:, 0].numpy()):
        opened = OwnData((form, torch.from_numpy(LABELS)), test=(given, LABELS)).open()
        assert (opened.channels, opened.size) == (1, 8)
        assert torch.equal(everything(opened.train), given)


def test_a_layout_decides_where_both_could_be_meant() -> None:
    given = noise(30, 3, 8, 3)
    with pytest.raises(DataError, match=r"30x3x8x3 either could be the channels; layout='NCHW' or layout='NHWC'"):
        OwnData((given, LABELS))
    assert OwnData((given, LABELS), layout="NCHW").open().train.fetch(torch.tensor([0])).shape == (1, 3, 3, 3)
    last = OwnData((given, LABELS), layout="NHWC", test=(given, LABELS)).open(3).train
    assert torch.equal(everything(last), given.movedim(-1, 1)[:, :, :, 2:5])  # the centered square of 3x8 pixels


def test_items_of_a_torch_dataset() -> None:
    """Images of Pillow's, arrays and tensors beside each other; labels of every kind of whole number."""
    given = pixels(30)
    image = Image.fromarray(given[0].permute(1, 2, 0).numpy())
    items: list[Any] = [(image, 0), (given[1].numpy(), np.int64(1)), [given[2].movedim(0, -1), torch.tensor(2)]]
    items += [(given[place], int(LABELS[place])) for place in range(3, 30)]
    opened = OwnData(Pairs(items), test=(given, LABELS)).open()
    assert torch.equal(everything(opened.train), given)
    assert opened.labels().tolist() == LABELS.tolist()
    assert torch.equal(
        everything(OwnData((Pairs([item[0] for item in items]), LABELS), test=(given, LABELS)).open().train), given
    )


def test_images_of_different_sizes_come_in_one() -> None:
    sizes = [(20 + number, 16 + number % 3) for number in range(30)]
    items = [(Image.fromarray(noise(h, w, 3, key=w).numpy()), n % 3) for n, (w, h) in enumerate(sizes)]
    opened = OwnData(Pairs(items), test=Pairs(items)).open()
    assert (opened.size, opened.channels) == (17, 3)
    assert opened.about.startswith("17x17, the median of the short sides; the images have 34x17 in the median")
    assert everything(opened.train).shape == (30, 3, 17, 17)
    own = noise(17, 21, 3, key=21).permute(2, 0, 1)
    assert torch.equal(opened.train.fetch(torch.tensor([1]))[0], own[:, :, 2:19])  # of this size: the center as it is
    assert OwnData(Pairs(items)).open(40).size == 40


def test_large_images_are_at_most_64_pixels() -> None:
    opened = OwnData((noise(30, 1, 100, 90), LABELS)).open()
    assert opened.size == 64
    assert opened.train.fetch(torch.tensor([0, 1])).shape == (2, 1, 64, 64)
    assert opened.augmentation.smallest_area is None
    assert OwnData((noise(30, 1, 100, 90), LABELS)).open(80).augmentation.smallest_area == 0.08


def test_gray_among_colored_images() -> None:
    items = [(noise(8, 8, key=n) if n % 2 else noise(3, 8, 8, key=n), n % 3) for n in range(30)]
    opened = OwnData(Pairs(items), test=Pairs(items)).open()
    assert opened.channels == 3
    gray = opened.train.fetch(torch.tensor([1]))[0]
    assert torch.equal(gray, noise(8, 8, key=1).expand(3, 8, 8))


def test_images_of_pillow_are_read_as_files_are() -> None:
    image = Image.new("RGBA", (4, 2), (255, 0, 0, 0))
    assert set(pixels_of(image, "it").flatten().tolist()) == {255}  # transparency is laid over white
    assert image.mode == "RGBA"
    turned = Image.fromarray(noise(2, 4, 3).numpy())
    exif = Image.Exif()
    exif[0x0112] = 6
    turned.save(file := io.BytesIO(), "PNG", exif=exif)
    shown = pixels_of(Image.open(file), "it")
    assert torch.equal(shown, noise(2, 4, 3).permute(2, 0, 1).rot90(-1, (1, 2)))
    assert pixels_of(Image.new("I;16", (3, 3), 65535), "it").shape == (1, 3, 3)


class Random(Pairs):
    """As with a transform that draws anew each time."""

    def __getitem__(self, place: int) -> Any:
        self.count = getattr(self, "count", 0) + 1
        image, label = self.items[place]
        return image.roll(self.count, -1), label


class Stream(IterableDataset[Any]):
    """Without a length."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Failing(Pairs):
    def __getitem__(self, place: int) -> Any:
        raise RuntimeError("the disk is gone\nand more")


GOOD = pixels()
PLAIN = [(image, number % 3) for number, image in enumerate(GOOD)]
REFUSED: dict[str, tuple[Any, str]] = {
    "int64": (
        lambda: OwnData((GOOD.long(), LABELS)),
        "images of train must be uint8, or float from 0 to 1, but the type is int64",
    ),
    "bool": (lambda: OwnData((GOOD.numpy() > 3, LABELS)), "but the type is bool"),
    "text": (
        lambda: OwnData((np.full((30, 8, 8), "x"), LABELS)),
        "images must be uint8, or float from 0 to 1, but the type is <U1",
    ),
    "floats to 255": (
        lambda: OwnData((GOOD.float(), LABELS)),
        r"images of train of type float must have values from 0 to 1, but one is \d+$",
    ),
    "negative": (lambda: OwnData((GOOD / 255 - 0.5, LABELS)), r"from 0 to 1, but one is -0\.\d+"),
    "nan": (lambda: OwnData((GOOD / 255 * float("nan"), LABELS)), "from 0 to 1, but one is nan"),
    "channels": (
        lambda: OwnData((noise(30, 4, 8, 8), LABELS)),
        r"must be \[n, 1 or 3, height, width\] or .* but the shape is 30x4x8x8",
    ),
    "layout": (
        lambda: OwnData((GOOD, LABELS), layout="NHWC"),
        r"must be \[n, height, width, 1 or 3\], or .*but the shape is 30x3x8x8",
    ),
    "flat": (lambda: OwnData((GOOD.flatten(1), LABELS)), "but the shape is 30x192"),
    "empty": (lambda: OwnData((GOOD[:0], LABELS[:0])), "images of train must have pixels, but the shape is 0x3x8x8"),
    "no pixels": (lambda: OwnData((GOOD[:, :, :0], LABELS)), "must have pixels, but the shape is 30x3x0x8"),
    "labels missing": (
        lambda: OwnData((GOOD, LABELS[:7])),
        "labels of train must be one for each of 30 images, but the shape is 7",
    ),
    "labels of floats": (
        lambda: OwnData((GOOD, LABELS / 1)),
        "labels of train must be whole numbers, but the type is float64",
    ),
    "labels of words": (
        lambda: OwnData((GOOD, ["a"] * 30)),
        "labels of train must be whole numbers, but the type is <U1",
    ),
    "ragged labels": (lambda: OwnData((GOOD, [[1], [1, 2]])), "labels of train must be whole numbers"),
    "negative label": (lambda: OwnData((GOOD, LABELS - 1)), "labels of train must be from 0 to 49,999, but one is -1"),
    "huge label": (lambda: OwnData((GOOD, LABELS * 10**6)), "from 0 to 49,999, but one is 1000000"),
    "label above classes": (
        lambda: OwnData((GOOD, LABELS), classes=["a", "b"]),
        "labels of train must be from 0 to 1, one for each class, but one is 2",
    ),
    "test label above": (
        lambda: OwnData((GOOD, LABELS), test=(GOOD, LABELS + 1)),
        "labels of test must be from 0 to 2, one for each class, but one is 3",
    ),
    "same classes": (
        lambda: OwnData((GOOD, LABELS), classes=["a", "b", "a"]),
        "classes must be 2 to 50,000 different names, but got",
    ),
    "one class": (lambda: OwnData((GOOD, LABELS * 0), classes=["a"]), "classes must be 2 to 50,000 different names"),
    "classes as a word": (
        lambda: OwnData((GOOD, LABELS), classes="abc"),
        "classes must be 2 to 50,000 different names, but got 'abc'",
    ),
    "name": (lambda: OwnData((GOOD, LABELS), name="a:b"), "the name of data must be up to 60 letters.* but got 'a:b'"),
    "unknown layout": (
        lambda: OwnData((GOOD, LABELS), layout=cast(Any, "CHWN")),
        "layout must be NCHW or NHWC, but got 'CHWN'",
    ),
    "triple": (
        lambda: OwnData(cast(Any, (GOOD, LABELS, 3))),
        r"train must be a tuple of two, \(images, labels\), but it has 3",
    ),
    "iterable": (
        lambda: OwnData(Stream()),
        "train must be an array or a map-style dataset, with a length and items by number, but is of type Stream",
    ),
    "a number": (lambda: OwnData(cast(Any, 3)), "train must be an array or a map-style dataset.* but is of type int"),
    "empty dataset": (lambda: OwnData(Pairs([])), "train must have images, but it is empty"),
    "no pair": (lambda: OwnData(Pairs(list(GOOD))), r"item 0 of train must be \(image, label\), but is of type Tensor"),
    "no image": (
        lambda: OwnData(Pairs([*PLAIN, ("a.png", 1)])),
        "image 30 of train must be an array or an image of Pillow's, but is of type str",
    ),
    "a true label": (
        lambda: OwnData(Pairs([(GOOD[0], True)])),
        "label 0 of train must be a whole number, but is of type bool",
    ),
    "a float label": (
        lambda: OwnData(Pairs([*PLAIN, (GOOD[0], torch.tensor(1.0))])),
        "label 30 of train must be a whole number, but is of type float",
    ),
    "a broken image": (
        lambda: OwnData(Pairs([(Image.new("F", (3, 3)), 0)])),
        "image 0 of train has floating-point pixels",
    ),
    "fails": (lambda: OwnData(Failing(PLAIN)), "item 0 of train cannot be read: the disk is gone"),
    "random": (
        lambda: OwnData(Random(PLAIN)),
        "must be the same each time it is read, but image 0 of train is not; leave random transforms out",
    ),
    "unlabeled": (lambda: OwnData((GOOD, LABELS), unlabeled=GOOD.int()), "images of unlabeled must be uint8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_in_a_sentence(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(DataError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_class_without_images_is_refused_when_it_is_split() -> None:
    data = OwnData((GOOD, LABELS * 2))
    with pytest.raises(DataError, match=r"every class must have images in the training part of own:data@.*'1'"):
        split(data.open(), seed=0)


def test_a_test_part_is_given_or_set_aside() -> None:
    given = OwnData((GOOD, LABELS), test=(GOOD[:9], LABELS[:9])).open()
    assert given.test is not None
    assert (len(given.train), len(given.test), given.notes) == (30, 9, ())
    assert given.overlap[0].startswith("9 of 9 test images also occur among the training images: number 0 = number 0;")
    for train in ((GOOD, LABELS), Pairs(PLAIN)):
        apart = OwnData(train).open()
        assert apart.test is not None
        assert apart.test.labels is not None
        assert sorted(apart.test.labels.tolist()) == [0, 0, 1, 1, 2, 2]
        assert apart.notes == ("there is no test part: 6 of 30 images are set aside as the test part",)
        both = torch.cat([everything(apart.train), everything(apart.test)]).flatten(1).tolist()
        assert sorted(both) == sorted(GOOD.flatten(1).tolist())
        assert apart.overlap == ()
    few = OwnData((GOOD[:12], LABELS[:12])).open()
    assert few.test is None
    assert few.notes == ("there is no test part, and classes of fewer than 5 images leave none for one",)


def test_mean_and_deviation_are_those_of_the_training_images() -> None:
    for train in ((GOOD, LABELS), Pairs(PLAIN)):
        opened = OwnData(train).open()
        values = everything(opened.train).double() / 255
        assert opened.mean == pytest.approx(values.mean((0, 2, 3)).tolist(), abs=1e-4)
        assert opened.std == pytest.approx(values.std((0, 2, 3), correction=0).tolist(), abs=1e-4)


def test_unlabeled_images_come_like_the_labeled_ones() -> None:
    like = OwnData((GOOD, LABELS)).open(6)
    other = noise(40, 1, 9, 12)
    for unlabeled in (other, Pairs(list(other)), Pairs([(image, "ignored") for image in other])):
        data = OwnData((GOOD, LABELS), unlabeled=unlabeled)
        images = data.open_unlabeled(like)
        assert images.labels is None
        assert everything(images).shape == (40, 3, 6, 6)
    assert OwnData((GOOD, LABELS)).unlabeled_reference is None
    own = OwnData((GOOD, LABELS), test=(GOOD, LABELS)).open_unlabeled(like)
    assert (len(own), own.labels) == (30, None)


def test_every_change_changes_the_reference() -> None:
    changed, labels = GOOD.clone(), LABELS.copy()
    changed[29, 0, 0, 0] ^= 1
    labels[[0, 1]] = labels[[1, 0]]
    made = [
        OwnData((GOOD, LABELS)),
        OwnData((changed, LABELS)),
        OwnData((GOOD, labels)),
        OwnData((GOOD, LABELS), classes=["a", "b", "c"]),
        OwnData((GOOD, LABELS), test=(GOOD, LABELS)),
        OwnData((GOOD, LABELS), test=(changed, LABELS)),
        OwnData((GOOD, LABELS), name="others"),
    ]
    assert len({data.reference for data in made}) == len(made)
    assert made[0].reference == OwnData((GOOD, LABELS), unlabeled=GOOD).reference
    assert made[-1].reference == f"own:others@{made[0].digest}"
    shapes = [OwnData((noise(30, 1, 4, 9).view(30, 1, *shape), LABELS)) for shape in ((4, 9), (9, 4))]
    assert OwnData(Pairs(PLAIN)).digest == OwnData(Pairs(PLAIN)).digest
    assert everything(shapes[0].open(4).train).shape == everything(shapes[1].open(4).train).shape
    lists = [OwnData(Pairs([(x.view(1, *s), n % 3) for n, x in enumerate(noise(30, 36))])) for s in ((4, 9), (9, 4))]
    assert lists[0].digest != lists[1].digest


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("size", [8, 5, 12])
def test_images_that_are_read_are_fetched_like_those_in_memory(
    kept: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kept:
        monkeypatch.setattr("smallgroup.data.kept.MOST", 0)
    given = noise(10, 3, 8, 11)
    labels = torch.arange(10) % 3
    memory = TensorImages(given, labels, size=size)
    read = ReadImages(given.__getitem__, Seen.of(10, given.__getitem__), labels, size=size, channels=3)
    places = torch.tensor([3, 9, 0, 3])
    parts = Parts(0.2, torch.rand(4, DRAWS, dtype=torch.float64, generator=stream("parts")))
    for _ in range(2):
        assert torch.equal(memory.fetch(places), read.fetch(places))
        assert torch.equal(memory.fetch(places, parts), read.fetch(places, parts))
    assert torch.equal(memory.resized(4).fetch(places), read.resized(4).fetch(places))
    assert torch.equal(memory.without_labels(6, 1).fetch(places), read.without_labels(6, 1).fetch(places))
    assert read.without_labels(6, 1).labels is None
    assert read.labels is labels
    assert list(memory.prints) == list(read.prints)
    some = read.chosen(places)
    assert torch.equal(some.fetch(torch.arange(4)), read.fetch(places))
    assert some.labels is not None
    assert some.labels.tolist() == [0, 0, 0, 0]
