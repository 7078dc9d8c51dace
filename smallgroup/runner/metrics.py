"""Metrics of a run: one JSON object per line, only ever appended to."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from smallgroup.runner.place import CHECKPOINTS, METRICS
from smallgroup.runtime.files import bring_to_disk, naming, open_regular

LONGEST_LINE = 50_000_000
"""Bytes of a row that are read; the scores of a large space take a thousandth of it."""


class Metrics:
    """`metrics.jsonl`. A checkpoint records its length, and a resumed run cuts off what was written after it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def length(self) -> int:
        """Return the number of bytes written so far."""
        try:
            with open_regular(self.path) as file:
                return os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row and bring it to the disk: a checkpoint that counts it may follow."""
        line = json.dumps(row, allow_nan=False) + "\n"
        new = not self.path.exists()
        with naming(self.path), open_regular(self.path, "ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        if new:
            bring_to_disk(self.path.parent)

    def digest(self) -> str:
        """Return a digest of everything that was written."""
        if not self.path.exists():
            return hashlib.sha256().hexdigest()
        digest = hashlib.sha256()
        with open_regular(self.path) as file:
            for part in iter(lambda: file.read(2**20), b""):
                digest.update(part)
        return digest.hexdigest()

    def cut(self, length: int) -> None:
        """Forget what was written after a checkpoint."""
        self.check(length)
        if self.path.exists():
            with open_regular(self.path, "rb+") as file:
                file.truncate(length)

    def check(self, length: int) -> None:
        """Refuse a file of which a part is gone that a checkpoint counts."""
        if length > self.length:
            raise ValueError(
                f"{self.path} must have the {length:,} bytes that the checkpoint counts, but it has {self.length:,}; "
                "lines are missing, so start the run again in another folder"
            )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every complete row; a last line that a kill cut off is left out."""
        return read_rows(self.path)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of metrics."""
    if not path.exists():
        return
    with open_regular(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if len(line) == LONGEST_LINE:
                raise ValueError(f"line {number} of {path} must have less than {LONGEST_LINE:,} bytes, but it has more")
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise ValueError(f"line {number} of {path} must be JSON, but it is not") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} must be an object, but it is not")
            yield row


def current(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the places of the rows that no rollback took back.

    A row with `rolled_back_to` takes back itself, and all rows before it of later epochs than that.
    """
    kept: list[int] = []
    for place, row in enumerate(rows):
        to = row.get("rolled_back_to")
        if not isinstance(to, int):
            kept.append(place)
            continue
        kept = [known for known in kept if not isinstance(epoch := rows[known].get("epoch"), int) or epoch <= to]
    return kept


def read_current_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a file of metrics that no rollback took back."""
    rows = list(read_rows(path))
    return [rows[place] for place in current(rows)]


def check_free(folder: Path) -> None:
    """Refuse a folder in which a run was begun: it would have to be resumed."""
    if Metrics(folder / METRICS).length or (folder / CHECKPOINTS).exists():
        raise ValueError(f"{folder} must be empty or resumed, but it already has a run")
