"""Checkpoints that are whole or not there: safetensors and JSON in a folder, with a manifest written last.

    checkpoints/000000000120/learner-0.safetensors  the tensors of a learner by name, where there are learners
                             tensors.safetensors    all other tensors
                             record.json            everything else
                             manifest.json          the SHA-256 of all of them

A checkpoint is written beside its place, brought to the disk, and moved there by one rename. One of the same step that
is there already is set aside until then, as 000000000120.old. No pickle anywhere.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from smallgroup.runtime.files import (
    bring_to_disk,
    check_not_link,
    is_unfinished,
    naming,
    read_regular,
    unfinished_in,
)
from smallgroup.runtime.tensor_files import read_tensors, tensor_bytes, tensors_of

SCHEMAS = (1, 2)
"""1: `tensors.safetensors` alone; 2: files of learners, and that one if there are other tensors."""
TENSORS, RECORD, MANIFEST = "tensors.safetensors", "record.json", "manifest.json"
LARGEST = {RECORD: 50_000_000, MANIFEST: 1_000_000}
"""Bytes; a thousandth of them is common."""
_ASIDE = ".old"


@dataclass(frozen=True)
class Checkpoint:
    """A state that was saved after `step` steps, and why newer ones could not be used."""

    step: int
    tensors: dict[str, Tensor]
    record: dict[str, Any]
    passed_over: tuple[str, ...] = ()
    """A sentence for every newer checkpoint that is damaged."""


def take_up(tensor: Tensor, saved: Tensor, name: str) -> None:
    """Copy a saved tensor into the one it was saved from; one of another shape would be spread over it in silence."""
    if saved.shape != tensor.shape or saved.dtype != tensor.dtype:
        had, needed = (f"{list(one.shape)} of {one.dtype}" for one in (saved, tensor))
        raise ValueError(f"tensor {name[:80]} of a checkpoint must be {needed}, but it is {had}")
    tensor.detach().copy_(saved)


class Checkpoints:
    """The checkpoints of one run; the newest `keep` of them stay."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"keep >= 1 must hold for the number of checkpoints, but got keep={keep}")
        self.folder, self.keep = folder, keep

    def save(self, step: int, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> Path:
        """Write a checkpoint; killed at any moment, either it is there as a whole or the ones before are."""
        check_not_link(self.folder)
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            bring_to_disk(self.folder.parent)
        place = self.folder / f"{step:012d}"
        aside = place.with_name(f"{place.name}{_ASIDE}")
        unfinished = unfinished_in(self.folder)
        unfinished.mkdir()
        try:
            contents = {name: tensor_bytes(part) for name, part in _by_file(tensors).items()}
            schema = 1 if list(contents) == [TENSORS] else 2
            contents[RECORD] = json.dumps({"step": step, **record}).encode()
            sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
            contents[MANIFEST] = json.dumps({"schema": schema, "sha256": sums}).encode()
            for name, content in contents.items():
                _write(unfinished / name, content)
            bring_to_disk(unfinished)
            if place.exists():  # the same step once more: the run went back, or its next step failed
                if aside.exists():
                    shutil.rmtree(aside)
                place.rename(aside)  # not removed: killed before the next line, it is the newest there is
            unfinished.rename(place)
            bring_to_disk(self.folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        self._clean(step)
        return place

    def newest(self) -> Checkpoint | None:
        """Return the newest sound checkpoint; None if there is none, an error if all are damaged."""
        passed_over: list[str] = []
        for place in reversed(self._places()):
            try:
                step, tensors, record = _read(place)
            except (ValueError, OSError) as error:
                passed_over.append(f"checkpoint {place} is damaged and was skipped: {error}")
                continue
            return Checkpoint(step, tensors, record, tuple(passed_over))
        if passed_over:
            raise ValueError(f"one of the checkpoints in {self.folder} must be sound, but: {'; '.join(passed_over)}")
        return None

    def _places(self) -> list[Path]:
        """Return folders of checkpoints, oldest first; of one step, a replaced one comes before its replacement."""
        check_not_link(self.folder)
        if not self.folder.exists():
            return []
        if not self.folder.is_dir():
            raise ValueError(f"{self.folder} must be a folder, but it is a file")
        found = [path for path in self.folder.iterdir() if _PLACE.fullmatch(path.name) and path.is_dir()]
        return sorted(found, key=lambda path: (_step_of(path), not path.name.endswith(_ASIDE)))

    def _clean(self, step: int) -> None:
        """Remove what is too old, and what is newer: a future that was left when the run went back."""
        places = self._places()
        past = [place for place in places if _step_of(place) <= step and not place.name.endswith(_ASIDE)]
        for place in set(places) - set(past[-self.keep :]):
            shutil.rmtree(place, ignore_errors=True)
        for path in filter(is_unfinished, self.folder.iterdir()):  # left by a process that was killed
            shutil.rmtree(path, ignore_errors=True)


_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")
_OF_TENSORS = re.compile(rf"{re.escape(TENSORS)}|learner-(?:{_NUMBER.pattern})\.safetensors")
_PLACE = re.compile(rf"[0-9]{{12,18}}(?:{re.escape(_ASIDE)})?")


def _step_of(place: Path) -> int:
    return int(place.name.removesuffix(_ASIDE))


def _read(place: Path) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
    check_not_link(place)
    manifest = _object(MANIFEST, read_regular(place / MANIFEST, LARGEST[MANIFEST]))
    if (schema := manifest.get("schema")) not in SCHEMAS:
        raise ValueError(f"its schema must be {' or '.join(map(str, SCHEMAS))}, but it is {str(schema)[:20]}")
    sums = manifest.get("sha256")
    if not isinstance(sums, dict):
        raise ValueError(f"{MANIFEST} must hold checksums")
    files = [TENSORS] if schema == 1 else sorted(name for name in sums if _OF_TENSORS.fullmatch(name))
    text = read_regular(place / RECORD, LARGEST[RECORD])
    _check_sum(RECORD, text, sums)
    tensors: dict[str, Tensor] = {}
    for name in files:
        found = read_tensors(place / name)
        _check_sum(name, found, sums)
        try:
            tensors |= tensors_of(found)
        except ValueError as error:
            raise ValueError(f"{name} cannot be read: {error}") from None
    record = _object(RECORD, text)
    step = record.pop("step", None)
    if not isinstance(step, int) or step != _step_of(place):
        raise ValueError(f"its step must be that of its name, but it is {str(step)[:20]}")
    return step, tensors, record


def _by_file(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Return tensors by the file they go to; names of learner 3 begin with `3.`."""
    files: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        learner = name.partition(".")[0]
        own = f"learner-{learner}.safetensors" if _NUMBER.fullmatch(learner) else TENSORS
        files.setdefault(own, {})[name] = tensor
    return files or {TENSORS: {}}


def _check_sum(name: str, content: bytes, sums: Mapping[str, Any]) -> None:
    if hashlib.sha256(content).hexdigest() != sums.get(name):
        raise ValueError(f"the checksum of {name} differs")


def _object(name: str, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{name} is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must hold an object")
    return value


def _write(path: Path, content: bytes) -> None:
    with naming(path), path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
