"""Files of tensors (safetensors), read with distrust."""

import json
import os
from pathlib import Path

from smallgroup.runtime.files import open_regular

LONGEST_HEADER = 100_000_000
"""Bytes; as much as safetensors itself reads."""


def read_tensors(path: Path) -> bytes:
    """The bytes of a file of tensors, if it is as long as it says; that is found out before memory is asked for."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(LONGEST_HEADER, size - 8):
            raise ValueError(f"{path} must begin with a header of its tensors, but it does not")
        said = 8 + length + _data(file.read(length), path)
        if said != size:
            raise ValueError(f"{path} must have the {said:,} bytes that its header says, but it has {size:,}")
        file.seek(0)
        return file.read(size)


def _data(header: bytes, path: Path) -> int:
    """Bytes of all tensors, where they follow one another."""
    try:
        entries = json.loads(header)
        ends = [entry["data_offsets"][1] for name, entry in entries.items() if name != "__metadata__"]
        if all(isinstance(end, int) and 0 <= end < 2**63 for end in ends):
            return max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        pass
    raise ValueError(f"{path} must begin with a header of its tensors, but it does not")
