"""Folders of images: one sub-folder per class, or `train/` with `val/` or `test/` of those; ImageNet is one of them."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from smallgroup.data.augment import Augmentation
from smallgroup.data.checking import BadImages, Checked, check_files, skipped_note, usable
from smallgroup.data.dataset import Dataset, Proportions, imbalance
from smallgroup.data.decoding import SUFFIXES
from smallgroup.data.errors import DataError, NoClassesError, reason, require_folder
from smallgroup.data.images import FileImages
from smallgroup.data.measured import MeasuredImages
from smallgroup.data.normalization import statistics_of_sums
from smallgroup.data.shards import PARTS, Scan, open_shards
from smallgroup.data.sizes import LARGEST_DEFAULT, read_shapes
from smallgroup.data.splits import set_aside
from smallgroup.runtime.text import quoted, shown

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's statistics as published, for all of it and for subsets; other folders have their own."""
IMAGENET_SIZE = 224
IMAGENET_PROPORTIONS = Proportions(labeled=0.125, train=0.8, unlabeled=0.1)


def open_folder(path: Path, size: int | None = None, bad: BadImages | None = None) -> Dataset:
    """Return images whose class is the name of their folder.

    Without a size, images have the median of their short sides, 64 pixels at most. Without `val/` and `test/`
    a fifth of every class, always the same files, is the test part. All files are decoded first: for their mean and
    deviation, to see whether the training images are gray, and to find those that cannot be decoded. `bad` says what is
    done about these; everything else is then a function of the others. None: they are an error once they are used.
    """
    require_folder(path, "a dataset 'folder:PATH'")
    notes: list[str] = []
    test: Scan | None = None
    parts = scan_parts(path)
    train, tests = parts["train"], [part for part in ("test", "val") if part in parts]
    test = parts[tests[0]] if tests else None
    if len(tests) > 1:
        notes.append(f"{shown(path)} has test/ and val/: test/ is the test part and val/ is not used")
    # Files are decoded once, at a size that must be known before it is known which of them can be decoded. It is the
    # right one unless bad files make a difference to the median.
    likely = size or read_shapes(_parts(train, test, [])[0][1], sound=False).usual
    checked, sound_train, sound_test = _readable(path, train, test, bad, likely)
    notes += skipped_note(checked)
    if not sound_train[1]:
        raise DataError(f"{shown(path)} must hold images for training, but none of {len(train[1]):,} can be decoded")
    (classes, files, labels), parted_test = _parts(sound_train, sound_test, notes)
    shapes = read_shapes(files, sound=True)
    own = size or shapes.usual
    sums = checked.sums if own == likely else _readable(path, train, test, bad, own)[0].sums
    rows = [sums[file] for file in files if file in sums]
    channels = 1 if rows and all(len(row) == 2 for row in rows) else 3
    mean, std = statistics_of_sums(rows, own * own, channels)
    known: Any = {"size": own, "channels": channels, "checked": bad is not None, "prints": checked.prints}
    return Dataset(
        name=f"folder:{path}",
        classes=classes,
        train=FileImages(files, labels, **known, skipped=tuple(checked.bad)),
        test=None if parted_test is None else FileImages(parted_test[1], parted_test[2], **known),
        mean=mean,
        std=std,
        channels=channels,
        size=own,
        augmentation=usual_augmentation(own),
        about=shapes.reason(size) + ("; gray: 1 channel" if channels == 1 else "; color: 3 channels"),
        notes=(*notes, *imbalance(labels, classes)),
    )


def usual_augmentation(size: int) -> Augmentation:
    """Return what suits images of a size about which nothing else is known."""
    if size <= LARGEST_DEFAULT:
        return Augmentation(crop_padding=size // 8)
    # The smallest part of the published pipelines for ImageNet.
    return Augmentation(smallest_area=0.08, crop_padding=0)


def open_imagenet(folder: Path, size: int | None = None, bad: BadImages | None = None) -> Dataset:
    """Open ImageNet as `train` and `val` of a folder, one folder per class; a search uses 10 %, 2.5 % and 10 %."""
    size = size or IMAGENET_SIZE
    found = scan_imagenet(folder)
    (classes, files, labels), test = found["train"], found.get("val")
    checked, (_, files, labels), test = _readable(folder, (classes, files, labels), test, bad)
    whole = len(classes) == 1000
    note = "" if whole else f"a subset of ImageNet: {len(classes)} of 1,000 classes, {len(files):,} training images"
    notes = [*filter(None, [note]), *imbalance(labels, classes), *skipped_note(checked)]
    if test is None:
        notes.append("ImageNet has no val/ here, so there is no test part")
    # Published: the short side is resized to 256, and the middle 224 pixels are kept.
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


def scan_parts(path: Path) -> dict[str, Scan]:
    """Return the images of each part of a folder, or of shards; of a folder without parts, all of them as `train`."""
    if (shards := open_shards(path)) is not None:
        return shards
    if not _has_parts(path):
        return {"train": scan_classes(path)}
    train = scan_classes(path / "train")
    return {"train": train} | {
        part: scan_classes(path / part, train[0]) for part in ("test", "val") if (path / part).is_dir()
    }


def scan_imagenet(folder: Path) -> dict[str, Scan]:
    """Return the images of `train` and `val`, as folders or shards."""
    if (shards := open_shards(folder)) is not None:
        return shards
    train = scan_classes(folder / "train")
    return {"train": train} | ({"val": scan_classes(folder / "val", train[0])} if (folder / "val").is_dir() else {})


def _readable(
    folder: Path, train: Scan, test: Scan | None, bad: BadImages | None, size: int | None = None
) -> tuple[Checked, Scan, Scan | None]:
    """Return what is known about the files, and the usable files of both parts; all files if nothing is checked.

    With a size, the sums of their pixels at that size are known too.
    """
    paths = [*train[1], *(() if test is None else test[1])]
    if bad is None:
        checked = Checked() if size is None else check_files(paths, size)
        return replace(checked, bad={}), train, test
    checked = usable(paths, bad, folder, size)
    return checked, _without(train, checked), None if test is None else _without(test, checked)


def _without(scan: Scan, checked: Checked) -> Scan:
    classes, files, labels = scan
    kept = [place for place, path in enumerate(files) if path not in checked.bad]
    return classes, [files[place] for place in kept], labels[torch.tensor(kept, dtype=torch.int64)]


def open_measured(path: Path, size: int, bad: BadImages | None = None) -> MeasuredImages:
    """Open the images of `test/` or `val/`, else all images; one class is enough. `bad` is as in `open_folder`."""
    shards = open_shards(path)
    in_parts = shards if shards is not None else [part for part in PARTS if (path / part).is_dir()]
    parts = [part for part in ("test", "val", "train") if part in in_parts] if shards or _has_parts(path) else []
    folder = path / parts[0] if parts else path
    scan = shards[parts[0]] if shards else scan_classes(folder, least=1)
    checked, (classes, files, labels), _ = _readable(folder, scan, None, bad)
    if not files:
        raise DataError(f"{shown(folder)} must hold images, but none of {len(scan[1]):,} can be decoded")
    images = FileImages(files, labels, size=size, skipped=tuple(checked.bad))
    return MeasuredImages(classes, images, f"images of {parts[0]}/" if parts else "all images")


def scan_classes(folder: Path, known: tuple[str, ...] | None = None, least: int = 2) -> Scan:
    """Return every image below each class folder, sorted; with `known` classes, the folders must be among those."""
    require_folder(folder, "a part of a dataset")
    names = [entry.name for entry in _entries(folder) if _is_folder(entry)]
    classes = known or tuple(names)
    if unknown := [name for name in names if name not in classes]:
        raise DataError(f"classes in {shown(folder)} must also be in train/, but {quoted(unknown[0])} is not")
    if len(classes) < least:
        loose = sum(entry.name.lower().endswith(SUFFIXES) for entry in _entries(folder))
        found = f"only {quoted(names[0])}" if names else "no sub-folder"
        found += f" and {loose:,} images of no class" if loose else ""
        wanted = f"{least} class{'es' * (least > 1)}"
        raise NoClassesError(f"{shown(folder)} must have at least {wanted}, one sub-folder each, but it has {found}")
    files: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        found_files = images_below(folder / name) if name in names else []
        if not found_files and known is None:
            raise DataError(f"every class in {shown(folder)} must have images, but {quoted(name)} has none")
        files += found_files
        labels += [number] * len(found_files)
    if not files:
        raise DataError(f"{shown(folder)} must hold images in the folders of its classes, but there is none")
    return classes, files, torch.tensor(labels, dtype=torch.int64)


def open_images_below(folder: Path, size: int, channels: int, bad: BadImages | None = None) -> FileImages:
    """Open all images below a folder, without labels; `bad` is as in `open_folder`."""
    shards = open_shards(folder)
    if not (
        files := images_below(folder) if shards is None else [file for part in shards.values() for file in part[1]]
    ):
        raise DataError(f"{shown(folder)} must hold images for the unlabeled set, but there is none in it")
    checked = Checked() if bad is None else usable(files, bad, folder)
    files = [path for path in files if path not in checked.bad]
    if not files:
        raise DataError(f"{shown(folder)} must hold images for the unlabeled set, but none can be decoded")
    note, skipped = "".join(skipped_note(checked)), tuple(checked.bad)
    return FileImages(files, None, size=size, channels=channels, note=note, skipped=skipped)


def images_below(folder: Path) -> list[str]:
    """Return every image file below a folder, sorted; hidden ones are ignored, a folder linked twice counts once."""
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
    """Return whether `train` is a part of the data; a folder of images with that name is a class."""
    return (folder / "train").is_dir() and any(_is_folder(entry) for entry in _entries(folder / "train"))


def _parts(whole: Scan, test: Scan | None, notes: list[str]) -> tuple[Scan, Scan | None]:
    """Return the training and the test part; where there is no test part, a fifth of every class is set aside."""
    if test is not None:
        return whole, test
    classes, files, labels = whole
    parts = set_aside(labels, classes, "folder")
    if parts is None:
        notes.append("there is no val/ or test/, and classes of fewer than 5 images leave none for a test part")
        return whole, None
    chosen, train = parts
    notes.append(f"there is no val/ or test/: {len(chosen):,} of {len(files):,} images are set aside as the test part")
    trained, tested = ((classes, [files[i] for i in part.tolist()], labels[part]) for part in (train, chosen))
    return trained, tested
