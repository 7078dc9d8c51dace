"""Finished searches of studies as one small file, and back.

`python -m smallgroup.study.archive pack STUDIES ARCHIVE` adds the finished searches of a folder of studies to an
archive (`.tar.xz`), which is made where there is none; `--study FILE` takes those of these studies alone.
`python -m smallgroup.study.archive unpack ARCHIVE STUDIES` puts them into a folder of studies, where `smallgroup study`
goes on: what is done is not repeated.

An archive has what tables and figures are made of. It has no checkpoints, so that nothing in it can be resumed, and no
trainings, which are finished only with their weights. A search that both sides have is left as it is. The same searches
give the same bytes.

An archive may come from anyone: one with anything else in it than regular files of searches is refused before anything
is written.
"""

import argparse
import io
import json
import lzma
import os
import re
import sys
import tarfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from smallgroup.config import CONFIG
from smallgroup.methods import METHODS
from smallgroup.phases.search.result import ARCHITECTURES, SearchResult
from smallgroup.registry import import_plugins
from smallgroup.runner.lock import InUseError, locked
from smallgroup.runner.place import FACTS, METRICS, RESULT
from smallgroup.runtime.files import check_not_link, read_regular, write_whole
from smallgroup.runtime.text import shown
from smallgroup.spaces import SPACES
from smallgroup.spaces.genotypes import FILE as GENOTYPE
from smallgroup.study.file import open_study
from smallgroup.study.folder import RUNS
from smallgroup.study.plan import planned
from smallgroup.study.store import Store

KEPT = (CONFIG, FACTS, GENOTYPE, METRICS, ARCHITECTURES, RESULT)
"""Files of a search, in the order in which they are written: it is finished when the last of them is there."""
NEEDED = {CONFIG, GENOTYPE, RESULT}
"""Those that every finished search has."""
SEARCH = "search"
_KEY = re.compile(r"[0-9a-f]{16}")
_MEMBER = re.compile(rf"{RUNS}/({_KEY.pattern})/{SEARCH}/({'|'.join(map(re.escape, KEPT))})")
_LARGEST = 500_000_000
"""Bytes of an unpacked archive; that of a thousand searches has a tenth."""
_MADE = 1_767_225_600
"""The time that all members have, so that the same runs give the same bytes: 2026-01-01."""

Files = dict[str, bytes]
"""Of a search: content by name."""


@dataclass(frozen=True)
class Packed:
    """The number of searches that `pack` added, knew or left out."""

    added: int
    known: int
    """Finished ones that the archive had before."""
    unfinished: int
    total: int
    """Searches in the archive after packing."""


def pack(studies: Path, archive: Path, names: Sequence[str] = ()) -> Packed:
    """Add the finished searches of a folder of studies to an archive; with names, those of these studies alone."""
    wanted = {run.key for name in names for run in planned(*open_study(name)).runs} if names else None
    before = read_archive(archive) if archive.exists() else {}
    finished, unfinished = _finished(studies, wanted)
    added = {key: files for key, files in finished.items() if key not in before}
    if added:
        write_whole(archive, _packed({**before, **added}))
    return Packed(len(added), len(finished) - len(added), unfinished, len(before) + len(added))


def unpack(archive: Path, studies: Path) -> tuple[int, int]:
    """Put the searches of an archive into a folder of studies; return how many were put there and how many were not.

    Those are left out that are finished there, or that another process works on.
    """
    searches, store = read_archive(archive), Store(studies)
    store.check()
    put = sum(_put(studies / RUNS / key, files) for key, files in searches.items())
    return put, len(searches) - put


def read_archive(path: Path) -> dict[str, Files]:
    """Return the files of every search of an archive, by its key; refuse one that has anything else."""
    searches: dict[str, Files] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(_decompressed(path)), mode="r:") as tar:
            for member in tar:
                match = _MEMBER.fullmatch(member.name)
                if match is None or not member.isreg() or member.issparse():
                    raise ValueError(
                        f"{path} must have regular files of searches alone, named {RUNS}/KEY/{SEARCH}/FILE, but it has "
                        f"{shown(member.name)}"
                    )
                key, name = match.groups()
                files, content = searches.setdefault(key, {}), tar.extractfile(member)
                if name in files or content is None:
                    raise ValueError(f"{path} must have every file once, but {member.name} is there again")
                files[name] = content.read()
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path} must be a tar file compressed by xz, but it is not: {error}") from None
    for key, files in searches.items():
        if missing := NEEDED - files.keys():
            raise ValueError(f"{path} must have finished searches alone, but that of {key} has no {min(missing)}")
    return searches


def _decompressed(path: Path) -> bytes:
    """Return all bytes at once: their size is checked before."""
    with lzma.open(io.BytesIO(read_regular(path, links=True))) as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{path} must have at most {_LARGEST:,} bytes unpacked, but it has more")
    return content


def _packed(searches: Mapping[str, Files]) -> bytes:
    out = io.BytesIO()
    # Archives are committed: size counts more than the time to pack them.
    with lzma.open(out, "wb", preset=9) as compressed, tarfile.open(fileobj=compressed, mode="w") as tar:
        for key, files in sorted(searches.items()):
            for name, content in sorted(files.items()):
                member = tarfile.TarInfo(f"{RUNS}/{key}/{SEARCH}/{name}")
                member.size, member.mtime = len(content), _MADE
                tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _finished(studies: Path, wanted: Collection[str] | None) -> tuple[dict[str, Files], int]:
    """Return the files of all finished searches, and how many were begun and are not finished."""
    check_not_link(studies / RUNS, "study")
    found: dict[str, Files] = {}
    unfinished = 0
    for folder in sorted((studies / RUNS).glob("*")):
        place = folder / SEARCH
        if not _KEY.fullmatch(folder.name) or (wanted is not None and folder.name not in wanted):
            continue
        for part in (folder, place):
            check_not_link(part, "study")
        if _is_finished(place):
            there = [name for name in KEPT if os.path.lexists(place / name)]
            found[folder.name] = {name: read_regular(place / name) for name in there}
        elif place.exists():
            unfinished += 1
    return found, unfinished


def _is_finished(place: Path) -> bool:
    """Return whether a search has its result, also with a plugin that is not imported here."""
    if SearchResult.read(place) is not None:
        return True
    try:
        said = json.loads(read_regular(place / RESULT))
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(said, dict):
        return False
    names = {name: known for key, known in (("space", SPACES), ("method", METHODS)) for name in _parts(said.get(key))}
    return any(name not in known for name, known in names.items())


def _parts(value: object) -> list[str]:
    """Return names of the learners' spaces or methods, as results join them."""
    return value.split("+") if isinstance(value, str) else []


def _put(folder: Path, files: Files) -> bool:
    """Write a search, unless it is finished there or in use."""
    place = folder / SEARCH
    for part in (folder.parent, folder, place):
        check_not_link(part, "study")
    if _is_finished(place):
        return False
    try:
        with locked(folder):
            place.mkdir(exist_ok=True)
            for name in KEPT:
                if name in files:
                    write_whole(place / name, files[name])
    except InUseError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    """Pack or unpack, and say what came of it."""
    parser = argparse.ArgumentParser(
        prog="python -m smallgroup.study.archive",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plugin", action="append", default=[], help="a module or file to import; may be repeated")
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="add finished searches to an archive")
    packing.add_argument("studies", type=Path, help="folder of studies, such as `studies`")
    packing.add_argument("archive", type=Path, help="such as runs.tar.xz")
    packing.add_argument("--study", action="append", default=[], help="only those of this study; may be repeated")
    unpacking = commands.add_parser("unpack", help="put those of an archive into a folder of studies")
    unpacking.add_argument("archive", type=Path)
    unpacking.add_argument("studies", type=Path)
    given = parser.parse_args(arguments)
    try:
        import_plugins(given.plugin)
        if given.command == "pack":
            found = pack(given.studies, given.archive, given.study)
            said = (
                f"{given.archive} has {found.total} searches: {found.added} were added, {found.known} were there "
                f"already; {found.unfinished} in {given.studies} are not finished"
            )
        else:
            put, left = unpack(given.archive, given.studies)
            said = f"{given.studies} has {put} more finished searches; {left} were there already or are in use"
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    main()
