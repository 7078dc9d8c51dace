"""All files of a dataset are decoded once before a run begins: which cannot be used, and which are the same image."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

import PIL
from pydantic import TypeAdapter

from smallgroup.data.decoding import PLACE, examined
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
    """The knowledge about files after all of them were decoded."""

    bad: dict[str, str] = field(default_factory=dict)
    """Files that cannot be used, and why."""
    prints: dict[str, str] = field(default_factory=dict)
    """A text for each file that has the same pixels as another one, equal for both."""
    sums: dict[str, list[int]] = field(default_factory=dict)
    """Sums of usable files at the requested size, if one was requested (see `decoding.sums_of`)."""


_CHECKED = TypeAdapter(Checked)
_known: dict[str, Checked] = {}
"""By the digest of the list of files: a run opens its data several times."""


def check_files(paths: Sequence[str], size: int | None = None) -> Checked:
    """Decode every file, unless exactly these files were decoded before; with a size, sum their pixels at that size."""
    key = _digest(paths, size)
    if key not in _known:
        place = cache_folder() / "checked" / f"{key}.json" if len(paths) >= KEPT else None
        _known[key] = _kept(place, paths, size) or _examined(paths, size, place)
    return _known[key]


def usable(paths: Sequence[str], bad: BadImages, where: Path, size: int | None = None) -> Checked:
    """Return what was checked, or raise an error that names the unusable files where these are to be refused."""
    checked = check_files(paths, size)
    if checked.bad and bad == "refuse":
        raise DataError(
            f"every image in {shown(where)} must be readable, but {len(checked.bad):,} of {len(paths):,} are not: "
            f"{listed([f'{shown(path)} {shown(why)}' for path, why in checked.bad.items()])}; "
            "--skip-bad-images (data.skip_bad_images) skips them"
        )
    return checked


def skipped_note(checked: Checked) -> list[str]:
    """Return a note on files that are left out, if there are any."""
    if not checked.bad:
        return []
    count, names = len(checked.bad), [shown(path) for path in checked.bad]
    return [f"{count:,} images that cannot be decoded are skipped: {listed(names)}"]


def listed(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - NAMED
    return "; ".join(names[:NAMED]) + (f"; and {more:,} more" if more > 0 else "")


def _examined(paths: Sequence[str], size: int | None, place: Path | None) -> Checked:
    if len(paths) <= FEW:
        found = examined(paths, size)
    else:
        some = (paths[first : first + PART] for first in range(0, len(paths), PART))
        with closing(examinations(some, min(cores(), 16), size)) as parts:
            found = list(chain.from_iterable(parts))
    prints = {path: text for path, (sound, text, _) in zip(paths, found, strict=True) if sound}
    often = Counter(prints.values())
    checked = Checked(
        {path: text for path, (sound, text, _) in zip(paths, found, strict=True) if not sound},
        {path: text for path, text in prints.items() if often[text] > 1},
        {path: sums for path, (_, _, sums) in zip(paths, found, strict=True) if sums},
    )
    if place is not None:
        with suppress(OSError):  # without a place to keep it, it is found out anew
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, json.dumps(asdict(checked)))
    return checked


def _kept(place: Path | None, paths: Sequence[str], size: int | None) -> Checked | None:
    """Return what an earlier process wrote down; None where there is nothing, or not the sums that are asked for."""
    if place is None:
        return None
    try:
        found = _CHECKED.validate_python(json.loads(read_regular(place)))
    except (OSError, ValueError, RecursionError):
        return None
    # A sum and a sum of squares per channel: 2 numbers for gray images, 6 for color.
    summed = size is None or all(path in found.bad or len(found.sums.get(path, ())) in (2, 6) for path in paths)
    return found if summed else None


def _digest(paths: Sequence[str], size: int | None) -> str:
    """Return a digest of the files as they are now: a file that was written again is decoded again."""
    digest = hashlib.sha256(f"2 {PIL.__version__} {size}\0".encode())
    for path in paths:
        try:
            found = os.stat(path.partition(PLACE)[0])
            state = f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"
        except (OSError, ValueError):
            state = "gone"
        digest.update(f"{path}\0{state}\0".encode(errors="surrogateescape"))
    # 128 bits of SHA-256 tell any number of folders apart.
    return digest.hexdigest()[:32]
