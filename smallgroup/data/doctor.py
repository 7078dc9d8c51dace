"""What data there is on this machine, and what is wrong with it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from smallgroup.data.decoding import Unreadable, header
from smallgroup.data.errors import DataError, reason
from smallgroup.data.folder import images_below
from smallgroup.data.images import FileImages, Images
from smallgroup.data.roots import expanded
from smallgroup.data.sources import FOLDER, NAMES, open_dataset
from smallgroup.runtime import stream
from smallgroup.runtime.text import shown

DECODED, OPENED = 2_000, 20_000
"""So many files are decoded, to find cut-off ones; of larger sets, the headers of so many are read."""

Status = Literal["ok", "subset", "missing", "damaged"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    what: str
    where: str
    status: Status
    sentence: str


def examine(root: Path, names: tuple[str, ...] = NAMES) -> list[Finding]:
    """Look for each named dataset; bad data is a finding, never an error."""
    return [_finding(name, root) for name in names]


def _finding(name: str, root: Path) -> Finding:
    folders = {"digits": "scikit-learn", "cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
    place = expanded(name.removeprefix(FOLDER)) if name.startswith(FOLDER) else root / folders.get(name, name)
    where = folders["digits"] if name == "digits" else shown(place)
    try:
        if name in NAMES[1:] and not place.exists():
            return Finding(name, where, "missing", f"{name} is not here: there is no {where}")
        status, sentence = (
            _without_classes(place) if name.startswith(FOLDER) and _is_flat(place) else _labelled(name, root)
        )
    except DataError as error:
        status, sentence = ("damaged" if _exists(place) else "missing"), str(error)
    except Exception as error:  # a doctor reports what it did not expect, too
        status, sentence = "damaged", f"{where} cannot be read: {reason(error)}"
    return Finding(name, where, status, sentence)


def _labelled(name: str, root: Path) -> tuple[Status, str]:
    dataset = open_dataset(name, root)
    parts = [part for part in (dataset.train, dataset.test) if part is not None]
    if unreadable := [line for part in parts for line in damaged_files(part)]:
        return "damaged", _told(unreadable)
    test = "no test images" if dataset.test is None else f"{len(dataset.test):,} test images"
    pixels = f"{dataset.size} x {dataset.size} x {dataset.channels}"
    text = f"{len(dataset.train):,} training and {test} of {len(dataset.classes)} classes, {pixels}"
    partial = any("subset" in note or "not the official" in note for note in dataset.notes)
    return "subset" if partial else "ok", "; ".join([text, *dataset.notes])


def _without_classes(folder: Path) -> tuple[Status, str]:
    images = FileImages(images_below(folder), None, size=8)
    if not len(images):
        return "missing", f"{shown(folder)} holds no images"
    if unreadable := damaged_files(images):
        return "damaged", _told(unreadable)
    return "ok", f"{len(images):,} images of no class, fit for the unlabelled set"


def _told(unreadable: list[str]) -> str:
    return f"image {unreadable[0]}" + (f" ({len(unreadable)} such files)" if len(unreadable) > 1 else "")


def _is_flat(folder: Path) -> bool:
    return _exists(folder) and folder.is_dir() and not any(entry.is_dir() for entry in folder.iterdir())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name no file can have
        return False


def damaged_files(images: Images) -> list[str]:
    """Files that cannot be used and why; nothing for images in memory."""
    if not isinstance(images, FileImages):
        return []
    found = []
    chosen = torch.randperm(len(images), generator=stream("doctor"))[:OPENED].sort().values
    for index in chosen:
        path = images.paths[int(index)]
        try:
            if len(images) <= DECODED:
                images.fetch(index[None])
            else:
                header(path)
        except Unreadable as error:
            found.append(f"{shown(path)} {shown(error)}")
        except DataError as error:
            found.append(str(error).removeprefix("image "))
    return found
