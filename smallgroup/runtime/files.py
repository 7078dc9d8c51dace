"""Files that are whole or not there."""

import os
from pathlib import Path
from secrets import token_hex


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file beside its place, bring it to the disk, move it there: killed in between, nothing has changed."""
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
