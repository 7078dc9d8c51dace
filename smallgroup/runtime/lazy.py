"""Imports on first use, so that a command can refuse bad input before torch, which takes seconds, is loaded."""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

Kind = TypeVar("Kind")


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


class LazyClasses(Mapping[str, type[Kind]], Generic[Kind]):
    """Classes by name, out of references like `package.module:Class`; each is imported when it is looked up.

    Iteration and `in` import nothing.
    """

    def __init__(self, references: Mapping[str, str]) -> None:
        self._references = dict(references)

    def __getitem__(self, name: str) -> type[Kind]:
        module, _, kind = self._references[name].partition(":")
        found: type[Kind] = getattr(import_module(module), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._references

    def __iter__(self) -> Iterator[str]:
        return iter(self._references)

    def __len__(self) -> int:
        return len(self._references)

    def about(self, name: str) -> str:
        """Return the first line of a class's docstring, from its source where there is one: without an import."""
        module, _, kind = self._references[name].partition(":")
        spec = find_spec(module)
        source = getattr(spec.loader, "get_source", lambda _: None)(module) if spec is not None else None
        for node in ast.parse(source or "").body:
            if isinstance(node, ast.ClassDef) and node.name == kind:
                return (ast.get_docstring(node) or "").partition("\n")[0]
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]
