"""Metrics of a run: one JSON object per line, only ever appended to."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from smallgroup.runtime.files import naming


class Metrics:
    """`metrics.jsonl`. A checkpoint records its length, and a resumed run cuts off what was written after it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row and bring it to the disk: a checkpoint that counts it may follow."""
        line = json.dumps(row, allow_nan=False) + "\n"
        with naming(self.path), self.path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def digest(self) -> str:
        """Changes with any of what was written."""
        if not self.path.exists():
            return hashlib.sha256().hexdigest()
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def cut(self, length: int) -> None:
        """Forget what was written after a checkpoint."""
        self.check(length)
        if self.path.exists():
            os.truncate(self.path, length)

    def check(self, length: int) -> None:
        """Refuse a file of which a part is gone that a checkpoint counts."""
        if length > self.length:
            raise ValueError(
                f"{self.path} must have the {length:,} bytes that the checkpoint counts, but it has {self.length:,}; "
                "something was taken away from it, and the run has to begin anew in another folder"
            )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every whole row; a last line that was cut off by a kill is not one."""
        return read_rows(self.path)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of metrics."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise ValueError(f"line {number} of {path} must be JSON, but it is not") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} must be an object, but it is not")
            yield row
