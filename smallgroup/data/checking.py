"""All files of a dataset are decoded once before a run begins: which cannot be used, and which are the same image."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

import PIL
from pydantic import TypeAdapter

from smallgroup.data.decoding import examined
from smallgroup.data.errors import DataError
from smallgroup.data.roots import cache_folder
from smallgroup.data.workers import examinations
from smallgroup.runtime.environment import cores
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.runtime.text import shown

BadImages = Literal["refuse", "skip"]
"""What is done about images that cannot be decoded."""
NAMED = 20
"""Files that an error names; of the others it says how many they are."""
FEW, PART = 500, 50
"""So many files are decoded in this process; more of them by others, in parts of this size."""
KEPT = 5_000
"""What was found out about so many files or more is kept in the user's cache folder."""


@dataclass(frozen=True)
class Checked:
    """What is known about files once all of them were decoded."""

    bad: dict[str, str] = field(default_factory=dict)
    """Files that cannot be used, and why."""
    prints: dict[str, str] = field(default_factory=dict)
    """Of files that have the same pixels as another one: a text that they share."""


_CHECKED = TypeAdapter(Checked)
_known: dict[str, Checked] = {}
"""By the digest of the list of files: a run opens its data several times."""


def check_files(paths: Sequence[str]) -> Checked:
    """Decode every file, unless exactly these files were decoded before."""
    key = _digest(paths)
    if key not in _known:
        place = cache_folder() / "checked" / f"{key}.json" if len(paths) >= KEPT else None
        _known[key] = _kept(place) or _examined(paths, place)
    return _known[key]


def usable(paths: Sequence[str], bad: BadImages, where: Path) -> Checked:
    """The same, or an error that names the files that cannot be used where these are to be refused."""
    checked = check_files(paths)
    if checked.bad and bad == "refuse":
        raise DataError(
            f"every image in {shown(where)} must be readable, but {len(checked.bad):,} of {len(paths):,} are not: "
            f"{listed([f'{shown(path)} {shown(why)}' for path, why in checked.bad.items()])}; "
            "--skip-bad-images (data.skip_bad_images) goes on without them"
        )
    return checked


def skipped_note(checked: Checked) -> list[str]:
    """A note on files that are left out, if there are any."""
    if not checked.bad:
        return []
    count, names = len(checked.bad), [shown(path) for path in checked.bad]
    return [f"{count:,} images that cannot be decoded are left out: {listed(names)}"]


def listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - NAMED
    return "; ".join(names[:NAMED]) + (f"; and {more:,} more" if more > 0 else "")


def _examined(paths: Sequence[str], place: Path | None) -> Checked:
    if len(paths) <= FEW:
        found = examined(paths)
    else:
        with closing(
            examinations((paths[first : first + PART] for first in range(0, len(paths), PART)), min(cores(), 16))
        ) as parts:
            found = list(chain.from_iterable(parts))
    prints = {path: text for path, (sound, text) in zip(paths, found, strict=True) if sound}
    often = Counter(prints.values())
    checked = Checked(
        {path: text for path, (sound, text) in zip(paths, found, strict=True) if not sound},
        {path: text for path, text in prints.items() if often[text] > 1},
    )
    if place is not None:
        with suppress(OSError):  # without a place to keep it, it is found out anew
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, json.dumps({"bad": checked.bad, "prints": checked.prints}))
    return checked


def _kept(place: Path | None) -> Checked | None:
    if place is None:
        return None
    try:
        return _CHECKED.validate_python(json.loads(read_regular(place)))
    except (OSError, ValueError, RecursionError):
        return None


def _digest(paths: Sequence[str]) -> str:
    """Of the files as they are now: a file that was written again is decoded again."""
    digest = hashlib.sha256(f"1 {PIL.__version__}\0".encode())
    for path in paths:
        try:
            found = os.stat(path)
            state = f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"
        except (OSError, ValueError):
            state = "gone"
        digest.update(f"{path}\0{state}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]
