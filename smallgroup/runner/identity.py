"""What a run must share with the one that it resumes; checked before torch is loaded."""

from collections.abc import Mapping
from typing import Any

from smallgroup.migrations import name_of_today
from smallgroup.runtime.checks import LONGEST


def check_identity(mine: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> None:
    """Refuse to resume with another job than the run started with, and name the difference."""
    for key in sorted(mine.keys() | theirs.keys()):
        name = f"{path}{key}"
        ours, saved = mine.get(key), theirs.get(key)
        if isinstance(ours, dict) and isinstance(saved, dict):
            check_identity(ours, saved, f"{name}.")
        elif ours != saved:
            was, now = (repr(value)[:LONGEST] for value in (saved, ours))
            raise ValueError(
                f"a run must be resumed with the config it started with, but {name_of_today(name)} was {was} and "
                f"is {now}"
            )
