"""The studies that come with the package, by name; known before anything that runs them is imported."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from smallgroup import recipes
from smallgroup.runtime.checks import suggestion
from smallgroup.runtime.plain_yaml import parsed

_MOST_WORKERS = 1_000
_FOLDER = files(recipes).joinpath("studies")


def built_in() -> tuple[str, ...]:
    """Return the studies that come with the package."""
    found = _FOLDER.iterdir()
    return tuple(sorted(path.name.removesuffix(".yaml") for path in found if path.name.endswith(".yaml")))


def keys_of_built_in(name: str) -> dict[str, Any]:
    """Return the content of a built-in study's file."""
    text = _FOLDER.joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    keys: Any = parsed(text)
    return dict(keys)


def check_workers(workers: int) -> None:
    """Refuse no process, and more than a machine can have."""
    if not 1 <= workers <= _MOST_WORKERS:
        raise ValueError(f"1 <= workers <= {_MOST_WORKERS} must hold, but got workers={workers}")


def check_study(name: str) -> None:
    """Refuse what is neither the name of a built-in study nor a file."""
    if name not in built_in() and not Path(name).is_file():
        known, hint = ", ".join(built_in()), suggestion(name, built_in())
        raise ValueError(f"a study must be a file or one of {known}, but got {name[:80]!r}{hint}")
