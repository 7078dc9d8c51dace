"""Shards: a folder of images, made smaller once and kept in a few large files, each image still at hand by its place.

    DIR/shards.json              classes, and the parts with the sizes of their files; written last
    DIR/train/index.safetensors  shard, offset, length and label of every image
    DIR/train/00000.shard ...    image files (JPEG or PPM), one behind the other

An image in a shard is named by the shard, a zero byte, which no name of a file has, and its place: see `decoding.py`.
So it is read, checked, compared and drawn parts of like any other file, by a worker process too, and a run on shards is
resumed like one on a folder.
"""

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from smallgroup.data.decoding import PLACE, Unreadable, shrunk
from smallgroup.data.errors import DataError
from smallgroup.data.shard_names import MANIFEST
from smallgroup.runtime.checks import check_counts
from smallgroup.runtime.environment import cores
from smallgroup.runtime.files import bring_to_disk, read_regular, unfinished_in, write_whole
from smallgroup.runtime.tensor_files import read_tensors, tensor_bytes, tensors_of
from smallgroup.runtime.text import shown

Encoding = Literal["jpeg", "ppm"]
Scan = tuple[tuple[str, ...], list[str], Tensor]
"""Classes, files, and the class of each file."""
INDEX = "index.safetensors"
PARTS = ("train", "test", "val")
COLUMNS = ("shard", "offset", "length", "label")
SIDE, QUALITY, SHARD_BYTES = 256, 92, 2**28
LARGEST_IMAGE = 2**28
"""Bytes of an image in a shard."""


class _Part(BaseModel):
    """One part of the images (train, test or val) in `shards.json`."""

    model_config = ConfigDict(strict=True, extra="forbid")
    images: int = Field(ge=1)
    bytes: list[int] = Field(min_length=1, max_length=100_000)
    """Bytes of each shard file."""


class _Manifest(BaseModel):
    """The contents of `shards.json`, checked as untrusted input."""

    model_config = ConfigDict(strict=True, extra="forbid")
    schema_version: Literal[1]
    classes: list[str] = Field(min_length=1, max_length=1_000_000)
    side: int
    encoding: Encoding
    parts: dict[Literal["train", "test", "val"], _Part]


@dataclass
class Written:
    """The files that `write_shards` wrote, and those it skipped."""

    folder: Path
    images: dict[str, int] = field(default_factory=dict)
    """Number of images in each part."""
    bytes: int = 0
    skipped: list[str] = field(default_factory=list)
    """Files that cannot be decoded and were left out."""

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `shards --json` prints."""
        return {**vars(self), "folder": str(self.folder)}


def open_shards(folder: Path) -> dict[str, Scan] | None:
    """Return the images of each part of a folder of shards; None: it is none."""
    if not os.path.lexists(folder / MANIFEST):
        return None
    try:
        manifest = _Manifest.model_validate_json(read_regular(folder / MANIFEST))
        if "train" not in manifest.parts or len(set(manifest.classes)) < len(manifest.classes):
            raise DataError("it must have a part train and classes that differ")
        return {name: _scan(folder / name, part, tuple(manifest.classes)) for name, part in manifest.parts.items()}
    except (ValueError, OSError, KeyError, RecursionError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"{shown(folder / MANIFEST)} must describe sound shards, but it does not: {first[:200]}"
        ) from None


def _scan(folder: Path, part: _Part, classes: tuple[str, ...]) -> Scan:
    """Read the index of a part; every image must lie in its shard, and every shard be as long as was written."""
    found = tensors_of(read_tensors(folder / INDEX))
    if set(found) != set(COLUMNS) or any(
        one.dtype != torch.int64 or tuple(one.shape) != (part.images,) for one in found.values()
    ):
        raise DataError(f"{INDEX} of {folder.name} must have {part.images:,} images")
    paths = [folder / f"{number:05d}.shard" for number in range(len(part.bytes))]
    for path, size in zip(paths, part.bytes, strict=True):
        if path.is_symlink() or not path.is_file() or path.stat().st_size != size:
            raise DataError(f"{folder.name}/{path.name} must be a file of {size:,} bytes")
    shard, offset, length, label = (found[name] for name in COLUMNS)
    if not (_within(shard, 0, len(paths) - 1) and _within(label, 0, len(classes) - 1)):
        raise DataError(f"{INDEX} of {folder.name} names shards or classes that are not there")
    sizes = torch.tensor(part.bytes, dtype=torch.int64)[shard]
    if not (_within(length, 1, LARGEST_IMAGE) and bool((offset >= 0).all() and (offset <= sizes - length).all())):
        raise DataError(f"{INDEX} of {folder.name} has images outside of their shards")
    names = [str(path) for path in paths]
    places = zip(shard.tolist(), offset.tolist(), length.tolist(), strict=True)
    return classes, [f"{names[number]}{PLACE}{begin}+{size}" for number, begin, size in places], label


def _within(values: Tensor, low: int, high: int) -> bool:
    return bool((values >= low).all() and (values <= high).all())


def write_shards(
    parts: dict[str, Scan],
    out: Path,
    *,
    side: int = SIDE,
    encoding: Encoding = "jpeg",
    quality: int = QUALITY,
    skip_bad: bool = False,
    workers: int | None = None,
    shard_bytes: int = SHARD_BYTES,
    told: Callable[[int, int], None] | None = None,
) -> Written:
    """Write the images of some parts as shards into a new folder: it is there once all of them are written.

    Args:
        parts: by name (train, test, val), the images with their classes.
        out: the folder; it must not exist.
        side: pixels of the short side; smaller images keep their size.
        encoding: jpeg, or ppm, which is not compressed: exact, fast, and several times as large.
        quality: of JPEG, 1 to 100.
        skip_bad: whether files that cannot be decoded are left out; else they are refused.
        workers: threads that make images smaller; None: one per core.
        shard_bytes: after so many bytes another file is begun.
        told: called with the number of images written so far and in all.
    """
    check_counts(side=side, workers=cores() if workers is None else workers, shard_bytes=shard_bytes)
    if not 1 <= quality <= 100:
        raise DataError(f"1 <= quality <= 100 must hold for the quality of JPEG, but got {quality}")
    if os.path.lexists(out):
        raise DataError(f"shards are written into a new folder, but {shown(out)} exists")
    unfinished, written = unfinished_in(out.parent), Written(out)
    total, done = sum(len(files) for _, files, _ in parts.values()), 0
    entries: dict[str, Any] = {}
    try:
        unfinished.mkdir(parents=True)
        for name, (_, files, labels) in parts.items():
            writer = _Writer(unfinished / name, shard_bytes)
            with ThreadPoolExecutor(workers or cores(), thread_name_prefix="smallgroup-shards") as pool:
                made = _in_order(
                    pool, files, lambda path: shrunk(path, side, encoding, quality), 4 * (workers or cores())
                )
                for path, label, content in zip(files, labels.tolist(), made, strict=True):
                    if isinstance(content, Unreadable):
                        if not skip_bad:
                            raise DataError(f"image {shown(f'{path} {content}')}; --skip-bad-images leaves it out")
                        written.skipped.append(path)
                    else:
                        writer.add(content, label)
                    done += 1
                    if told is not None:
                        told(done, total)
            entries[name] = writer.finish()
            written.images[name], written.bytes = entries[name]["images"], written.bytes + sum(entries[name]["bytes"])
        classes = list(next(iter(parts.values()))[0])
        about = {"schema_version": 1, "classes": classes, "side": side, "encoding": encoding, "parts": entries}
        write_whole(unfinished / MANIFEST, json.dumps(about) + "\n")
        unfinished.rename(out)
        bring_to_disk(out.parent)
    except BaseException:
        _remove(unfinished)
        raise
    return written


class _Writer:
    """Write the shard files and the index of one part."""

    def __init__(self, folder: Path, most: int) -> None:
        folder.mkdir()
        self._folder, self._most = folder, most
        self._sizes: list[int] = []
        self._rows: list[tuple[int, int, int, int]] = []
        self._content: list[bytes] = []
        self._held = 0

    def add(self, content: bytes, label: int) -> None:
        """Append an encoded image; start a new shard file if the current one is full."""
        if self._held and self._held + len(content) > self._most:
            self._flush()
        self._rows.append((len(self._sizes), self._held, len(content), label))
        self._content.append(content)
        self._held += len(content)

    def finish(self) -> dict[str, Any]:
        """Write the rest and the index; return what the manifest says of the part."""
        if not self._rows:
            raise DataError(f"part {self._folder.name} must have images that can be decoded, but it has none")
        self._flush()
        columns = torch.tensor(self._rows, dtype=torch.int64).T.contiguous()
        tensors = {name: column.clone() for name, column in zip(COLUMNS, columns, strict=True)}
        write_whole(self._folder / INDEX, tensor_bytes(tensors))
        return {"images": len(self._rows), "bytes": self._sizes}

    def _flush(self) -> None:
        write_whole(self._folder / f"{len(self._sizes):05d}.shard", b"".join(self._content))
        self._sizes.append(self._held)
        self._content, self._held = [], 0


def _in_order(
    pool: ThreadPoolExecutor, files: Sequence[str], make: Callable[[str], bytes], ahead: int
) -> Iterator[bytes | Unreadable]:
    """Return what is made of each file, in their order; a few are made ahead."""

    def made(path: str) -> bytes | Unreadable:
        try:
            return make(path)
        except Unreadable as error:
            return error

    waiting: deque[Future[bytes | Unreadable]] = deque()
    for path in files:
        waiting.append(pool.submit(made, path))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _remove(folder: Path) -> None:
    """Remove what was written, which is files and folders of our own."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    if folder.exists():
        folder.rmdir()
