"""Files and folders that only this user, or the system's administrator, can have written."""

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def make_own(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for this user alone; refuse one that others can write."""
    for each in (*reversed(folder.parents), folder):
        if not os.path.lexists(each):
            each.mkdir(mode=0o700, exist_ok=True)
    # What a link leads to counts, and so does the link.
    for each in {*folder.parents, *folder.resolve().parents}:
        _check(each, shared=True)
    for each in {folder, folder.resolve()}:
        _check(each)


def check_own(file: Path) -> None:
    """Refuse a file that is no regular file of this user, or that others can write."""
    if not stat.S_ISREG(file.lstat().st_mode):
        raise OSError(f"{file} must be a regular file, but it is not: remove it")
    _check(file)


def _check(path: Path, *, shared: bool = False) -> None:
    """Check owner and mode. `shared`: others may add files of their own, but replace no one else's, as in /tmp."""
    owners = {path.lstat().st_uid, path.stat().st_uid} - {0, os.geteuid()}
    if owners:
        raise OSError(f"{path} must belong to this user, but user {min(owners)} owns it: set XDG_CACHE_HOME elsewhere")
    mode = path.stat().st_mode
    if mode & _OTHERS and not (shared and mode & stat.S_ISVTX):
        raise OSError(f"{path} must not be writable for others: chmod go-w, or set XDG_CACHE_HOME elsewhere")
