"""Data of your own in Python: datasets of torch's and arrays, checked and made a `Dataset` of this package."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from smallgroup.data.dataset import Dataset, imbalance
from smallgroup.data.errors import DataError, reason
from smallgroup.data.folder import usual_augmentation
from smallgroup.data.images import Images, TensorImages
from smallgroup.data.normalization import Statistics, statistics_of_sums, sums_of_each
from smallgroup.data.pixels import Layout, is_array, labels_of, pixels_of, pixels_of_all
from smallgroup.data.read_images import ReadImages, Seen, print_of
from smallgroup.data.sizes import Shapes
from smallgroup.data.splits import set_aside
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.text import quoted, shown


class Items(Protocol):
    """Images by number, with a label each or without."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Any: ...  # noqa: ANN401


LabeledImages: TypeAlias = TorchDataset[Any] | Items | tuple[Any, Any]
"""A map-style dataset of (image, label), or a tuple (images, labels)."""
UnlabeledImages: TypeAlias = TorchDataset[Any] | Items | NDArray[Any] | Tensor
"""An array of images, or a map-style dataset of them."""
TWICE = 8
"""Images that are read twice, to find out whether they are the same each time."""
AT_ONCE = 256
"""Images that are summed up at a time."""


class OwnData:
    """Images of a Python program, for `data` of `smallgroup.search`, `smallgroup.train` and `smallgroup.run`.

    Labeled images are a map-style `torch.utils.data.Dataset` of (image, label), or a tuple (images, labels). An image
    is a PIL image or an array: uint8, or float from 0 to 1, which is converted to 8 bits. Arrays have their channels,
    1 or 3, first (NCHW) or last (NHWC); gray ones may leave them out. Images of a `Dataset` may differ in size.

    Everything is read once here, to check it and for the digest; images of a `Dataset` are read again when they are
    needed. Leave random transforms out: augmentation belongs to the config.

    Args:
        train: labeled images. Labels are whole numbers from 0.
        test: labeled images that are used once, at the end; None: a fifth of every class of `train` is set aside.
        unlabeled: images without labels, as an array or a `Dataset`, whose labels are ignored if it has any; None:
            those that `data.unlabeled` of the config says.
        classes: the names of the classes, in the order of their labels; None: the labels themselves.
        name: the name of the data in results: letters, digits, hyphens, underscores and dots.
        layout: NCHW or NHWC, for arrays of which either could be meant.
    """

    def __init__(
        self,
        train: LabeledImages,
        *,
        test: LabeledImages | None = None,
        unlabeled: UnlabeledImages | None = None,
        classes: Sequence[str] | None = None,
        name: str = "data",
        layout: Layout | None = None,
    ) -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name):
            raise DataError(
                "the name of data must be up to 60 letters, digits, hyphens, underscores and dots, but got "
                f"{quoted(str(name)[:80])}"
            )
        if layout not in (None, "NCHW", "NHWC"):
            raise DataError(f"layout must be NCHW or NHWC, but got {quoted(str(layout)[:60])}")
        self.name = name
        self._train = _labeled(train, "train", layout)
        self._test = None if test is None else _labeled(test, "test", layout)
        self._unlabeled = None if unlabeled is None else _unlabeled(unlabeled, layout)
        self.classes = _classes(classes, self._train.labels)
        for part, given in (("train", self._train), ("test", self._test)):
            if given is not None and (most := int(given.labels.max())) >= len(self.classes):
                rule = f"labels of {part} must be from 0 to {len(self.classes) - 1}, one for each class"
                raise DataError(f"{rule}, but one is {most}")
        parts = [self._train.digest, "" if self._test is None else self._test.digest, repr(self.classes)]
        self.digest = _digest("".join(parts))
        """A text that changes with the images, their labels and the classes."""
        self._opened: dict[int | None, Dataset] = {}

    @property
    def reference(self) -> str:
        """Return the value of `data.dataset` in the config of a run on these data."""
        return f"own:{self.name}@{self.digest}"

    @property
    def unlabeled_reference(self) -> str | None:
        """Return the value of `data.unlabeled` in the config of such a run; None: the config's own."""
        return None if self._unlabeled is None else f"own:{self.name}@{_digest(self._unlabeled.digest)}"

    def open(self, size: int | None = None, name: str | None = None) -> Dataset:
        """Return the labeled images as a `Dataset`, `size` pixels high and wide.

        As in a folder, size None is the median of the short sides, 64 at most, and an image that is not square is cut
        to its center. The result is called `name`; None: the reference of these data.
        """
        if size not in self._opened:  # a run opens its data several times
            self._opened[size] = self._open(size)
        return replace(self._opened[size], name=name or self.reference)

    def open_unlabeled(self, like: Dataset) -> Images:
        """Return the unlabeled images, or else the training images, in the size and the channels of a dataset."""
        given = self._parts[0] if self._unlabeled is None else self._unlabeled
        return given.base.without_labels(like.size, like.channels)

    def _open(self, size: int | None) -> Dataset:
        train, test, notes = self._parts
        shapes = Shapes(tuple((width, height) for _, height, width in train.shapes), "images")
        side, channels = size or shapes.usual, max(found[0] for found in train.shapes)
        images = train.images(side, channels)
        mean, std = _statistics(images, side, channels)
        return Dataset(
            name=self.reference,
            classes=self.classes,
            train=images,
            test=None if test is None else test.images(side, channels),
            mean=mean,
            std=std,
            channels=channels,
            size=side,
            augmentation=usual_augmentation(side),
            about=shapes.reason(size) + ("; gray: 1 channel" if channels == 1 else "; color: 3 channels"),
            notes=(*notes, *imbalance(train.labels, self.classes)),
        )

    @cached_property
    def _parts(self) -> tuple["_Given", "_Given | None", list[str]]:
        """The training and the test part, and what there is to say about them."""
        if self._test is not None:
            return self._train, self._test, []
        found = set_aside(self._train.labels, self.classes, "own")
        if found is None:
            return self._train, None, ["there is no test part, and classes of fewer than 5 images leave none for one"]
        count = f"{len(found[0]):,} of {len(self._train.labels):,}"
        test, train = (self._train.chosen(places) for places in found)
        return train, test, [f"there is no test part: {count} images are set aside as the test part"]


def as_own_data(data: OwnData | LabeledImages | None) -> OwnData | None:
    """Return what a user gives as `data`, which may be labeled images alone."""
    return data if data is None or isinstance(data, OwnData) else OwnData(data)


def open_images(images: UnlabeledImages, size: int, channels: int) -> Images:
    """Return images as those of a dataset in this size and these channels, without labels."""
    return _unlabeled(images, None).base.without_labels(size, channels)


@dataclass(frozen=True)
class _Given:
    """Images of one part, as they were given."""

    base: TensorImages | ReadImages
    shapes: tuple[tuple[int, int, int], ...]
    """Channels, height and width of each."""

    @property
    def labels(self) -> Tensor:
        assert self.base.labels is not None
        return self.base.labels

    @cached_property
    def digest(self) -> str:
        return self.base.digest()

    def images(self, size: int, channels: int) -> TensorImages | ReadImages:
        images = self.base.without_labels(size, channels)
        images.labels = self.base.labels
        return images

    def chosen(self, places: Tensor) -> "_Given":
        return _Given(self.base.chosen(places), tuple(self.shapes[place] for place in places.tolist()))


def _labeled(given: object, part: str, layout: Layout | None) -> _Given:
    if not isinstance(given, tuple):
        return _pairs(given, part, layout)
    if len(given) != 2:
        raise DataError(f"{part} must be a tuple of two, (images, labels), but it has {len(given)}")
    found = _unlabeled(given[0], layout, part)
    found.base.labels = labels_of(given[1], len(found.base), f"labels of {part}")
    return found


def _pairs(given: object, part: str, layout: Layout | None) -> _Given:
    count, item = _items(given, part)
    labels: list[int] = []

    def pair(place: int) -> tuple[object, object]:
        value = item(place)
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise DataError(f"item {place} of {part} must be (image, label), but is of type {type(value).__name__}")
        return value[0], value[1]

    def read(place: int) -> Tensor:
        image, label = pair(place)
        if place == len(labels):  # the first time
            labels.append(_label(label, place, part))
        return pixels_of(image, f"image {place} of {part}", layout)

    found = _read(count, read, part)
    found.base.labels = labels_of(labels, count, f"labels of {part}")
    return found


def _unlabeled(given: object, layout: Layout | None, part: str = "unlabeled") -> _Given:
    """Return images alone; a label beside an image is ignored."""
    if is_array(given):
        pixels = pixels_of_all(given, f"images of {part}", layout)
        _, channels, height, width = pixels.shape
        return _Given(TensorImages(pixels, None), ((channels, height, width),) * len(pixels))
    count, item = _items(given, part)

    def read(place: int) -> Tensor:
        value = item(place)
        image = value[0] if isinstance(value, tuple) and value else value
        return pixels_of(image, f"image {place} of {part}", layout)

    return _read(count, read, part)


def _read(count: int, read: Callable[[int], Tensor], part: str) -> _Given:
    """Read every image once, and some of them twice."""
    seen = Seen.of(count, read)
    for place, text in enumerate(seen.prints[:TWICE]):
        if print_of(read(place)) != text:
            raise DataError(
                f"an image must be the same each time it is read, but image {place} of {part} is not; leave random "
                "transforms out, as data.augmentation of the config has them"
            )
    return _Given(ReadImages(read, seen, None, size=1, channels=1), seen.shapes)


def _items(given: Any, part: str) -> tuple[int, Callable[[int], Any]]:  # noqa: ANN401 -- what a user gives
    """Return how many items a map-style dataset has, and what gets one of them."""
    if not (hasattr(given, "__len__") and hasattr(given, "__getitem__")) or isinstance(given, str | bytes | dict):
        raise DataError(
            f"{part} must be an array or a map-style dataset, with a length and items by number, but is of type "
            f"{shown(type(given).__name__)}"
        )
    if not (count := len(given)):
        raise DataError(f"{part} must have images, but it is empty")

    def item(place: int) -> Any:  # noqa: ANN401
        try:
            return given[place]
        except Exception as error:  # of somebody else's program: any
            raise DataError(f"item {place} of {part} cannot be read: {reason(error)[:200]}") from error

    return count, item


def _label(label: Any, place: int, part: str) -> Any:  # noqa: ANN401 -- what a user gives
    """Return a label as a plain number; what it is, is checked for all of them."""
    value = label.item() if hasattr(label, "item") and getattr(label, "ndim", 1) == 0 else label
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"label {place} of {part} must be a whole number, but is of type {type(value).__name__}")
    return value


def _classes(given: Sequence[str] | None, labels: Tensor) -> tuple[str, ...]:
    if given is None:
        return tuple(map(str, range(int(labels.max()) + 1)))
    classes = tuple(given)
    named = all(isinstance(name, str) for name in classes) and len(set(classes)) == len(classes)
    if isinstance(given, str) or not named or not 2 <= len(classes) <= MOST["classes"]:
        most = f"{MOST['classes']:,}"
        raise DataError(f"classes must be 2 to {most} different names, but got {shown(repr(given))[:100]}")
    return classes


def _statistics(images: Images, side: int, channels: int) -> Statistics:
    parts = torch.split(torch.arange(len(images)), AT_ONCE)
    rows = (row for part in parts for row in sums_of_each(images.fetch(part)))
    return statistics_of_sums(rows, side * side, channels)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
