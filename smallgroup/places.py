"""Which folders a run may use: new ones, empty ones, and those of runs."""

import difflib
import os
from pathlib import Path

from smallgroup.config import CONFIG
from smallgroup.runner.lock import FILE as LOCK
from smallgroup.runner.place import CHECKPOINTS, METRICS, RESULT
from smallgroup.runtime.files import check_not_link

RUNS = Path("runs")
"""Where commands make folders for runs that have no `--out`."""
SEEDS = "seeds.yaml"
"""In the folder of several searches: the config that they share but for the seed."""
PLAN = "plan.json"
"""In the folder of a whole run: its time budget and its baselines."""
_FIRST = (PLAN, "genotype.json", "peers.json", "cells.json")
"""What a run writes before its config; one that was killed in between is begun anew."""
_NO_CONTENT = {"lost+found"}
"""Names that a new, empty disk has."""


def holds_run(folder: Path) -> bool:
    """Return whether a folder is that of a run: other programs too write one file of these names, but rarely two."""
    found = [name for name in (LOCK, CONFIG, METRICS, CHECKPOINTS, RESULT, *_FIRST) if os.path.lexists(folder / name)]
    return len(found) > 1 and found[0] in (LOCK, CONFIG)


def is_begun(folder: Path) -> bool:
    """Return whether there is something to resume in a folder: a run, or the searches of several seeds."""
    return any((folder / name).exists() for name in (CONFIG, CHECKPOINTS, SEEDS))


def check_part(folder: Path) -> None:
    """Refuse a link in the place of a part of another run, such as the training of a search."""
    if (folder.parent / CONFIG).exists():
        check_not_link(folder)


def check_for_run(folder: Path) -> None:
    """Refuse a folder that holds anything else than a run; nothing is written to it."""
    if (folder / SEEDS).exists():
        raise ValueError(f"{folder} holds one search per seed: give its seeds with --seeds, or use another folder")
    if not holds_run(folder):
        check_empty(folder, "a run")


def check_for_seeds(folder: Path) -> None:
    """Check a folder of several searches in the same way; each of them has a folder of its own in it."""
    if holds_run(folder):
        raise ValueError(f"several searches need a folder of their own, but {folder} holds a run")
    if not (folder / SEEDS).exists():
        check_empty(folder, "a search of several seeds")


def check_empty(folder: Path, what: str) -> None:
    """Refuse a folder that holds something. Hidden files, and the log of this process, do not count."""
    try:
        with os.scandir(folder) as entries:
            found = {each.name for each in entries if not each.name.startswith(".") and not _is_own_log(each)}
    except (FileNotFoundError, PermissionError):  # new, or one that may be written to and not read
        return
    if found := found - _NO_CONTENT:
        raise ValueError(f"{what} needs a new or empty folder, but {folder} holds other files, such as {min(found)}")


def _is_own_log(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry is the output of this process, as with `2> runs/a/log` or in the jobs of a cluster."""
    found = entry.stat(follow_symlinks=False)
    for number in (1, 2):
        try:
            if os.path.samestat(found, os.fstat(number)):
                return True
        except OSError:  # closed
            continue
    return False


def nothing_to_resume(folder: Path, how: str) -> ValueError:
    """Return the error for a folder without a run: it names the nearest one, and how to say what a new run is."""
    near = nearest_run(folder)
    nearest = "" if near is None else f"; the nearest run is in {near}"
    return ValueError(f"there is no run to resume in {folder}{nearest}; to begin a new run, {how}")


def nearest_run(folder: Path) -> Path | None:
    """Return the run whose folder has the name most like this one: beside it, in `runs`, or beside its parent."""
    parent = folder.parent
    above = [parent, parent / RUNS] if parent.is_dir() else [parent.parent, *_folders(parent.parent)]
    found = {str(each): each for place in above for each in _folders(place) if is_begun(each)}
    near = difflib.get_close_matches(str(folder), list(found), n=1, cutoff=0.0)
    return found[near[0]] if near else None


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(path for path in place.iterdir() if path.is_dir())
    except OSError:
        return []
