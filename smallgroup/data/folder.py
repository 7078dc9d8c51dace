"""Folders of images: one sub-folder per class, or `train/` with `val/` or `test/` of those; ImageNet is one of them."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation
from smallgroup.data.checking import BadImages, Checked, skipped_note, usable
from smallgroup.data.dataset import Dataset, Proportions, imbalance
from smallgroup.data.decoding import SUFFIXES, Unreadable, header
from smallgroup.data.errors import DataError, NoClassesError, reason, require_folder
from smallgroup.data.images import FileImages
from smallgroup.data.names import require_data
from smallgroup.data.splits import stratified
from smallgroup.runtime import stream
from smallgroup.runtime.text import shown

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's statistics, for every folder: near enough for photographs, and the same on every machine and subset."""
IMAGENET_SIZE = 224
IMAGENET_PROPORTIONS = Proportions(labelled=0.125, train=0.8, unlabeled=0.1)
SAMPLE, LARGEST_DEFAULT = 256, 64
TEST_SHARE = 0.2


def open_folder(path: Path, size: int | None = None, bad: BadImages | None = None) -> Dataset:
    """Images whose class is the name of their folder.

    Without a size, images have the median of their short sides, 64 pixels at most. Without `val/` and `test/`
    a fifth of every class, always the same files, is the test part. All files are decoded first if `bad` says what is
    done about those that cannot be; everything else is then a function of the others.
    """
    require_folder(path, "a dataset 'folder:PATH'")
    name, notes = f"folder:{path}", []
    if _has_parts(path):
        classes, files, labels = scan_classes(path / "train")
        tests = [part for part in ("test", "val") if (path / part).is_dir()]
        test = scan_classes(path / tests[0], classes) if tests else None
        if len(tests) > 1:
            notes.append(f"{shown(path)} has test/ and val/: test/ is the test part and val/ is not used")
    else:
        classes, files, labels = scan_classes(path)
        test = None
    checked, (classes, files, labels), test = _readable(path, (classes, files, labels), test, bad)
    notes += skipped_note(checked)
    if test is None:
        classes, files, labels, test = _set_aside(classes, files, labels, notes)
    size = size or _usual_size(files, notes)
    small = size <= LARGEST_DEFAULT
    known: Any = {"checked": bad is not None, "prints": checked.prints}
    return Dataset(
        name=name,
        classes=classes,
        train=FileImages(files, labels, size=size, **known, skipped=tuple(checked.bad)),
        test=None if test is None else FileImages(test[1], test[2], size=size, **known),
        mean=MEAN,
        std=STD,
        channels=3,
        size=size,
        augmentation=Augmentation(crop_padding=size // 8)
        if small
        else Augmentation(smallest_area=0.08, crop_padding=0),
        notes=(*notes, *imbalance(labels, classes)),
    )


def open_imagenet(root: Path, size: int | None = None, bad: BadImages | None = None) -> Dataset:
    """ImageNet as `imagenet/train` and `imagenet/val`, one folder per class; a search uses 10 %, 2.5 % and 10 %."""
    folder, size = require_data("imagenet", root).parent, size or IMAGENET_SIZE
    classes, files, labels = scan_classes(folder / "train")
    test = scan_classes(folder / "val", classes) if (folder / "val").is_dir() else None
    checked, (_, files, labels), test = _readable(folder, (classes, files, labels), test, bad)
    whole = len(classes) == 1000
    note = "" if whole else f"a subset of ImageNet: {len(classes)} of 1,000 classes, {len(files):,} training images"
    notes = [*filter(None, [note]), *imbalance(labels, classes), *skipped_note(checked)]
    if test is None:
        notes.append("ImageNet has no val/ here, so there is no test part")
    shape: Any = {"size": size, "margin": 256 / 224}
    known: Any = {"checked": bad is not None, "prints": checked.prints}
    return Dataset(
        name="imagenet",
        classes=classes,
        train=FileImages(files, labels, **shape, note=note, **known, skipped=tuple(checked.bad)),
        test=None if test is None else FileImages(test[1], test[2], **shape, **known),
        mean=MEAN,
        std=STD,
        channels=3,
        size=size,
        augmentation=Augmentation(smallest_area=0.08, crop_padding=0),
        notes=tuple(notes),
        proportions=IMAGENET_PROPORTIONS,
    )


Scan = tuple[tuple[str, ...], list[str], Tensor]
"""Classes, files, and the class of each file."""


def _readable(folder: Path, train: Scan, test: Scan | None, bad: BadImages | None) -> tuple[Checked, Scan, Scan | None]:
    """What is known about the files, and those of both parts that can be used; all of them if nobody asks."""
    if bad is None:
        return Checked(), train, test
    checked = usable([*train[1], *(() if test is None else test[1])], bad, folder)
    return checked, _without(train, checked), None if test is None else _without(test, checked)


def _without(scan: Scan, checked: Checked) -> Scan:
    classes, files, labels = scan
    kept = [place for place, path in enumerate(files) if path not in checked.bad]
    return classes, [files[place] for place in kept], labels[torch.tensor(kept, dtype=torch.int64)]


def scan_classes(folder: Path, known: tuple[str, ...] | None = None) -> Scan:
    """Every image below each class folder, sorted; with `known` classes, the folders must be among those."""
    require_folder(folder, "a part of a dataset")
    names = [entry.name for entry in _entries(folder) if _is_folder(entry)]
    classes = known or tuple(names)
    if strangers := [name for name in names if name not in classes]:
        raise DataError(f"classes in {shown(folder)} must also be in train/, but {shown(strangers[0])!r} is not")
    if len(classes) < 2:
        loose = sum(entry.name.lower().endswith(SUFFIXES) for entry in _entries(folder))
        found = f"only {shown(names[0])!r}" if names else "no sub-folder"
        found += f" and {loose:,} images of no class" if loose else ""
        raise NoClassesError(f"{shown(folder)} must have at least 2 classes, one sub-folder each, but it has {found}")
    files: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        found_files = images_below(folder / name) if name in names else []
        if not found_files and known is None:
            raise DataError(f"every class in {shown(folder)} must have images, but {shown(name)!r} has none")
        files += found_files
        labels += [number] * len(found_files)
    if not files:
        raise DataError(f"{shown(folder)} must hold images in the folders of its classes, but there is none")
    return classes, files, torch.tensor(labels, dtype=torch.int64)


def images_below(folder: Path) -> list[str]:
    """Every image file below a folder, sorted; hidden ones are ignored, a folder linked twice counts once."""
    files: list[str] = []
    waiting: list[Path] = [folder]
    start = folder.resolve()
    seen: set[tuple[int, int]] = set()
    while waiting:
        here = waiting.pop()
        for entry in _entries(here):
            try:
                if entry.is_dir():
                    found = entry.stat()
                    if entry.is_symlink() and start.is_relative_to(Path(entry.path).resolve()):
                        continue  # back to where we come from
                    if (found.st_dev, found.st_ino) not in seen:
                        seen.add((found.st_dev, found.st_ino))
                        waiting.append(Path(entry.path))
                elif entry.name.lower().endswith(SUFFIXES):
                    files.append(entry.path)
            except OSError as error:
                raise DataError(f"{shown(entry.path)} cannot be read: {reason(error)}") from None
    return sorted(files)


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"folder {shown(folder)} cannot be read: {reason(error)}") from None


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError as error:  # a link to itself, say
        raise DataError(f"{shown(entry.path)} cannot be read: {reason(error)}") from None


def class_parents(path: Path) -> list[Path]:
    """Return the folders of a dataset whose sub-folders are classes."""
    return [path / part for part in ("train", "test", "val")] if _has_parts(path) else [path]


def _has_parts(folder: Path) -> bool:
    """Whether `train` is a part of the data; a folder of images called so is a class, of railway pictures perhaps."""
    return (folder / "train").is_dir() and any(_is_folder(entry) for entry in _entries(folder / "train"))


def _set_aside(
    classes: tuple[str, ...], files: list[str], labels: Tensor, notes: list[str]
) -> tuple[tuple[str, ...], list[str], Tensor, Scan | None]:
    if torch.bincount(labels).min() < 5:
        notes.append("there is no val/ or test/, and classes of fewer than 5 images leave none for a test part")
        return classes, files, labels, None
    test, train = stratified(labels, classes, (TEST_SHARE, 1 - TEST_SHARE), "folder", "test part")
    notes.append(f"there is no val/ or test/: {len(test):,} of {len(files):,} images are set aside as the test part")
    chosen = [files[index] for index in test.tolist()]
    return classes, [files[index] for index in train.tolist()], labels[train], (classes, chosen, labels[test])


def _usual_size(files: list[str], notes: list[str]) -> int:
    order = torch.randperm(len(files), generator=stream("folder", "size"))[:SAMPLE].tolist()
    sides = []
    for index in order:
        try:
            sides.append(min(header(files[index])))
        except Unreadable as error:
            raise DataError(f"image {shown(files[index])} {shown(error)}") from None
    size = min(sorted(sides)[len(sides) // 2], LARGEST_DEFAULT)
    mixed = "" if min(sides) == max(sides) else f"; their short sides have {min(sides):,} to {max(sides):,}"
    notes.append(f"images are brought to {size} x {size} pixels{mixed}")
    return size
