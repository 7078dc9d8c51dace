"""What data there is on this machine, and what is wrong with it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from smallgroup.data.dataset import Dataset
from smallgroup.data.decoding import Unreadable, header
from smallgroup.data.errors import DataError, reason, shown
from smallgroup.data.images import FileImages, Images
from smallgroup.data.roots import expanded
from smallgroup.data.sources import FOLDER, NAMES, open_dataset
from smallgroup.runtime import stream

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
        dataset = open_dataset(name, root)
        unreadable = damaged_files(dataset.train) + ([] if dataset.test is None else damaged_files(dataset.test))
    except DataError as error:
        return Finding(name, where, "damaged" if place.exists() else "missing", str(error))
    except Exception as error:  # a doctor reports what it did not expect, too
        return Finding(name, where, "damaged", f"{where} cannot be read: {reason(error)}")
    if unreadable:
        more = f" ({len(unreadable)} such files)" if len(unreadable) > 1 else ""
        return Finding(name, where, "damaged", f"image {unreadable[0]}{more}")
    partial = any("subset" in note or "not the official" in note for note in dataset.notes)
    return Finding(name, where, "subset" if partial else "ok", _summary(dataset))


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


def _summary(dataset: Dataset) -> str:
    test = "no test images" if dataset.test is None else f"{len(dataset.test):,} test images"
    pixels = f"{dataset.size} x {dataset.size} x {dataset.channels}"
    text = f"{len(dataset.train):,} training and {test} of {len(dataset.classes)} classes, {pixels}"
    return "; ".join([text, *dataset.notes])
