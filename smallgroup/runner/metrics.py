"""Metrics of a run: one JSON object per line, only ever appended to."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


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
        with self.path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def cut(self, length: int) -> None:
        """Forget what was written after a checkpoint."""
        if length > self.length:
            raise ValueError(
                f"{self.path} must have the {length:,} bytes that the checkpoint counts, but it has {self.length:,}; "
                "something was taken away from it, and the run has to begin anew in another folder"
            )
        if self.path.exists():
            os.truncate(self.path, length)

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
            except ValueError:
                raise ValueError(f"line {number} of {path} must be JSON, but it is not") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} must be an object, but it is not")
            yield row
