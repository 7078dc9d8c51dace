"""What data there is on this machine, and what is wrong with it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from smallgroup.data.checking import BadImages, listed, usable
from smallgroup.data.decoding import Unreadable, header
from smallgroup.data.errors import DataError, NoClassesError, reason
from smallgroup.data.folder import images_below
from smallgroup.data.images import FileImages, Images
from smallgroup.data.names import names_alone, source_of
from smallgroup.data.sources import open_dataset
from smallgroup.runtime import stream
from smallgroup.runtime.text import shown

OPENED = 20_000
"""Of so many files of ImageNet the headers are read."""

Status = Literal["ok", "subset", "missing", "damaged"]


@dataclass(frozen=True)
class Finding:
    """The result of one check of `smallgroup doctor`."""

    what: str
    where: str
    status: Status
    sentence: str


@dataclass(frozen=True)
class Shrunk:
    """The size to which larger images are brought in a search, and words for when that is."""

    size: int
    where: str


def examine(root: Path, names: tuple[str, ...] | None = None, shrunk: Shrunk | None = None) -> list[Finding]:
    """Check each named dataset, or all known ones; bad data is a finding, never an error."""
    return [_finding(name, root, shrunk) for name in (names_alone() if names is None else names)]


def _finding(name: str, root: Path, shrunk: Shrunk | None) -> Finding:
    try:
        source = source_of(name, root)
    except DataError as error:
        return Finding(name, shown(name), "missing", str(error))
    place = source.where()
    where = shown(place)
    status: Status
    try:
        if not source.takes and isinstance(place, Path) and not place.exists():
            return Finding(name, where, "missing", f"{name} is missing: there is no {where}")
        try:
            # All files of a folder are decoded; ImageNet is looked at whenever somebody asks for a doctor.
            status, sentence = _labeled(name, root, "refuse" if source.takes else None, shrunk)
        except NoClassesError as error:
            if not source.takes or not isinstance(place, Path):
                raise
            status, sentence = _without_classes(place, error)
    except DataError as error:
        status, sentence = ("damaged" if _exists(place) else "missing"), str(error)
    except Exception as error:  # a doctor reports what it did not expect, too
        status, sentence = "damaged", f"{where} cannot be read: {reason(error)}"
    return Finding(name, where, status, sentence)


def _labeled(name: str, root: Path, bad: BadImages | None, shrunk: Shrunk | None) -> tuple[Status, str]:
    dataset = open_dataset(name, root, bad=bad)
    if unreadable := [line for part in (dataset.train, dataset.test) if part for line in damaged_files(part)]:
        return "damaged", f"{len(unreadable):,} images cannot be used: {listed(unreadable)}"
    test = "no test images" if dataset.test is None else f"{len(dataset.test):,} test images"
    pixels = f"{dataset.size} x {dataset.size} x {dataset.channels}"
    text = f"{len(dataset.train):,} training and {test} of {len(dataset.classes)} classes, {pixels}"
    size = dataset.about
    if shrunk is not None and shrunk.size < dataset.size:
        size = dataset.about_size(shrunk.size, shrunk.where)
    about = [f"images: {size}"] if size else []
    partial = any("subset" in note or "not the official" in note for note in dataset.notes)
    return "subset" if partial else "ok", "; ".join([text, *about, *dataset.notes, *dataset.overlap])


def _without_classes(folder: Path, why: NoClassesError) -> tuple[Status, str]:
    """Return the status of a folder of images without classes, which cannot be labeled data and need not be."""
    files = images_below(folder)
    if not files:
        return "missing", f"{shown(folder)} holds no images"
    usable(files, "refuse", folder)
    flat = all(os.path.dirname(path) == str(folder) for path in files)
    what = f"{len(files):,} images without classes, usable with --unlabeled"
    return "ok", what if flat else f"{what}, but not with --dataset: {why}"


def _exists(place: Path | str) -> bool:
    try:
        return isinstance(place, Path) and place.exists()
    except (OSError, ValueError):  # a name no file can have
        return False


def damaged_files(images: Images) -> list[str]:
    """Return files whose header cannot be read, and why; nothing for images in memory or decoded before."""
    if not isinstance(images, FileImages) or images.checked:
        return []
    found = []
    chosen = torch.randperm(len(images), generator=stream("doctor"))[:OPENED].sort().values.tolist()
    for path in (images.paths[index] for index in chosen):
        try:
            header(path)
        except Unreadable as error:
            found.append(f"{shown(path)} {shown(error)}")
    return found
