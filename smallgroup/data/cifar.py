"""CIFAR-10 and CIFAR-100 from the folders of their official Python version, whole or a subset in the same layout."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation
from smallgroup.data.dataset import Dataset, imbalance
from smallgroup.data.errors import DataError
from smallgroup.data.images import TensorImages
from smallgroup.data.unpickle import read_pickle
from smallgroup.runtime.text import shown


@dataclass(frozen=True)
class CifarLayout:
    """The file layout of one of the two datasets, and the MD5 sums its authors publish."""

    name: str
    title: str
    train: dict[str, str]
    test: dict[str, str]
    meta: dict[str, str]
    labels: str
    class_names: str
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


CIFAR10 = CifarLayout(
    name="cifar10",
    title="CIFAR-10",
    train={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    test={"test_batch": "40351d587109b95175f43aff81a1287e"},
    meta={"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"},
    labels="labels",
    class_names="label_names",
    classes=10,
    mean=(0.49139968, 0.48215827, 0.44653124),
    std=(0.24703233, 0.24348505, 0.26158768),
)
CIFAR100 = CifarLayout(
    name="cifar100",
    title="CIFAR-100",
    train={"train": "16019d7e3df5f24257cddd939b257f8d"},
    test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    meta={"meta": "7973b15100ade9c7d40fb424638fde48"},
    labels="fine_labels",
    class_names="fine_label_names",
    classes=100,
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
)
LAYOUTS = {layout.name: layout for layout in (CIFAR10, CIFAR100)}
OFFICIAL_TRAIN, OFFICIAL_TEST = 50_000, 10_000


@dataclass(frozen=True)
class CifarPart:
    """Images of one part, and which of its files are missing or not the official ones."""

    pixels: Tensor
    labels: Tensor
    missing: tuple[str, ...]
    changed: tuple[str, ...]


def open_cifar(layout: CifarLayout, folder: Path, size: int | None = None) -> Dataset:
    """Read a CIFAR; what is not the official files is used all the same if it is sound, and the notes say so."""
    train, test = _part(layout, folder, layout.train), _part(layout, folder, layout.test)
    if train is None:
        raise DataError(f"{shown(folder)} must hold {' or '.join(layout.train)}, but it holds none of them")
    classes = _class_names(layout, folder)
    notes = _note(layout, "training", train, OFFICIAL_TRAIN), _note(layout, "test", test, OFFICIAL_TEST)
    return Dataset(
        name=layout.name,
        classes=classes,
        train=TensorImages(train.pixels, train.labels, size=size, note=notes[0]),
        test=None if test is None else TensorImages(test.pixels, test.labels, size=size),
        mean=layout.mean,
        std=layout.std,
        channels=3,
        size=size or 32,
        augmentation=Augmentation(crop_padding=4, flip=True),
        notes=(*filter(None, notes), *imbalance(train.labels, classes)),
    )


def _note(layout: CifarLayout, name: str, part: CifarPart | None, official: int) -> str:
    """Return how a part differs from the official one; nothing if it does not."""
    if part is None:
        return f"{layout.title} has no {name} images here: {', '.join(layout.test)} is missing"
    if len(part.labels) != official:
        return f"a subset of {layout.title}: {len(part.labels):,} of {official:,} {name} images"
    if part.changed or part.missing:
        names = ", ".join(part.changed + part.missing)
        return f"not the official files of {layout.title}: the checksum of {names} differs"
    return ""


def _part(layout: CifarLayout, folder: Path, files: dict[str, str]) -> CifarPart | None:
    pixels, labels, missing, changed = [], [], [], []
    for name, official in files.items():
        path = folder / name
        if not path.exists():
            missing.append(name)
            continue
        content, raw = read_pickle(path)
        if hashlib.md5(raw, usedforsecurity=False).hexdigest() != official:
            changed.append(name)
        pixels.append(_pixels(path, content))
        labels.append(_labels(path, content, layout, len(pixels[-1])))
    if not pixels:
        return None
    return CifarPart(torch.cat(pixels), torch.cat(labels), tuple(missing), tuple(changed))


def _pixels(path: Path, content: dict[str, Any]) -> Tensor:
    data = content.get("data")
    # A row is one image: 3 channels of 32 x 32 bytes.
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 3072 or not len(data):
        found = "x".join(map(str, data.shape)) if isinstance(data, np.ndarray) else f"of type {type(data).__name__}"
        raise DataError(f"'data' in {shown(path)} must be images as N x 3072 bytes with N > 0, but it is {found}")
    return torch.from_numpy(np.array(data, order="C")).view(-1, 3, 32, 32)


def _labels(path: Path, content: dict[str, Any], layout: CifarLayout, count: int) -> Tensor:
    name, labels = layout.labels, content.get(layout.labels)
    if not isinstance(labels, list) or len(labels) != count:
        found = f"{len(labels):,}" if isinstance(labels, list) else "none"
        raise DataError(
            f"{shown(path)} must have a list '{name}' with one label for each of {count:,} images, but it has {found}"
        )
    for place, label in enumerate(labels):
        if not isinstance(label, int) or isinstance(label, bool) or not 0 <= label < layout.classes:
            found = "one of over 18 digits" if isinstance(label, int) else f"one of type {type(label).__name__}"
            # Python refuses to print integers of thousands of digits.
            if type(label) is int and abs(label) < 10**18:
                found = str(label)
            elif isinstance(label, bool):
                found = "one of type bool"
            raise DataError(
                f"labels in {shown(path)} must be whole numbers from 0 to {layout.classes - 1}, "
                f"but image {place:,} has {found}"
            )
    return torch.tensor(labels, dtype=torch.int64)


def _class_names(layout: CifarLayout, folder: Path) -> tuple[str, ...]:
    path = folder / next(iter(layout.meta))
    if not path.exists():
        return tuple(f"class {number}" for number in range(layout.classes))
    names = read_pickle(path)[0].get(layout.class_names)
    texts = (
        [name.decode("latin-1") if isinstance(name, bytes) else name for name in names]
        if isinstance(names, list)
        else []
    )
    if len(texts) != layout.classes or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{shown(path)} must name {layout.classes} classes as '{layout.class_names}', but it does not")
    return tuple(shown(text) for text in texts)
