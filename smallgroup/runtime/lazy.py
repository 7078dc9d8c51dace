"""Imports on first use, so that a command can refuse bad input before torch, which takes seconds, is loaded."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package that imports its names when they are first used.

    Args:
        package: the package's `__name__`.
        homes: the names of each submodule. The package repeats them as imports below `TYPE_CHECKING` for type checkers.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:  # noqa: ANN401
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(import_module(package), name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(import_module(package)), *modules})

    return __getattr__, __dir__
