"""Files that are whole or not there."""

import os
from pathlib import Path
from secrets import token_hex


def write_whole(path: Path, text: str) -> None:
    """Write a text beside its place, bring it to the disk, move it there: killed in between, nothing has changed."""
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
