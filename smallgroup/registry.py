"""Registries: methods, spaces, datasets, ground truths and exporters by name, built in or from a user's plugin.

There are three ways in. A decorator registers a class where it is defined:

    @smallgroup.methods.register
    class Mine(Method): ...

An installed package declares an entry point in the group of the registry, such as `smallgroup.methods`. And `--plugin`
(in a config `plugins`) imports a module, or a file that ends in `.py`, whose decorators do the rest.

Nothing is imported before it is looked up: names can be listed and checked without torch, which takes seconds to load.
A module is imported only because a user names it or installed it, never because a file of a run does.
"""

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, TypeVar

from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.text import quoted, shown

Class = TypeVar("Class")
Own = TypeVar("Own", bound=type)
Loaded = TypeVar("Loaded")


class PluginError(ValueError):
    """A plugin that cannot be imported, or that registers what cannot be registered."""


class Registry(Mapping[str, type[Class]], Generic[Class]):
    """Classes of one kind by name. Iteration and `in` import nothing; a lookup imports the one class.

    Args:
        kind: what one of them is called in errors, such as "method".
        group: the group of entry points, such as "smallgroup.methods".
        base: `module:Class` that every entry is a subclass of.
        built_in: `module:Class` by name.
    """

    def __init__(self, kind: str, group: str, base: str, built_in: Mapping[str, str]) -> None:
        self.kind, self.group = kind, group
        self._one = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
        self._base, self._built_in = base, dict(built_in)
        self._registered: dict[str, type[Class]] = {}

    def register(self, entry: Own) -> Own:
        """Register a class under its `name`: the decorator."""
        name = getattr(entry, "name", None)
        if not isinstance(name, str) or not _is_name(name):
            raise PluginError(
                f"the name of {self._one} must be lower-case letters, digits and hyphens, but "
                f"{entry.__qualname__} has {quoted(str(name)[:60])}"
            )
        self._check(name, entry)
        known = self._registered.get(name)
        # A cell of a notebook that is run again defines the same class again.
        again = known is not None and _place(known) == _place(entry)
        if not again and (owner := self._owner(name)) is not None and owner != _place(entry):
            raise PluginError(f"{self._one} must have a unique name, but {name!r} is the name of {owner}")
        if name not in self._built_in:
            self._registered[name] = entry
        return entry

    def __getitem__(self, name: str) -> type[Class]:
        if name in self._registered:
            return self._registered[name]
        declared = self._declared().get(name, ())
        if name in self._built_in:
            self._check_unique(name, [self._built_in[name], *(point.value for point in declared)])
            module, _, attribute = self._built_in[name].partition(":")
            built_in: type[Class] = getattr(import_module(module), attribute)
            return built_in
        if not declared:
            raise KeyError(name)
        self._check_unique(name, [point.value for point in declared])
        entry: type[Class] = _imported(f"{self.kind} {name!r}", declared[0].load)
        self._check(name, entry)
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._registered or name in self._built_in or name in self._declared()

    def __iter__(self) -> Iterator[str]:
        others = {*self._registered, *self._declared()} - self._built_in.keys()
        return iter([*self._built_in, *sorted(others)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def built_in(self) -> tuple[str, ...]:
        """The names of the built-in ones."""
        return tuple(sorted(self._built_in))

    def check_name(self, name: str, what: str | None = None) -> None:
        """Refuse a name that nothing is registered under; `what` is the key or option that it was given as."""
        check_choice(what or self.kind, name, tuple(self))

    def about(self, name: str) -> str:
        """Return the first line of a class's docstring; of a built-in one without an import.

        A class of an installed package that cannot be imported gets a line that says so.
        """
        if name in self._built_in:
            module, _, attribute = self._built_in[name].partition(":")
            return _docstring_in(_class_in_source(module, attribute)) or _first_line(self[name])
        try:
            return _first_line(self[name])
        except PluginError as error:
            return str(error)

    def text_of(self, name: str, attribute: str) -> str:
        """Return a text that a class has as an attribute, or an empty one; of a built-in one without an import."""
        if name in self._built_in:
            module, _, class_ = self._built_in[name].partition(":")
            return _text_in(_class_in_source(module, class_), attribute)
        return str(getattr(self[name], attribute, ""))

    def usable(self) -> "Iterator[tuple[str, type[Class]]]":
        """Iterate over names and classes, without those of installed packages that cannot be imported."""
        for name in self:
            with suppress(PluginError):
                yield name, self[name]

    def added(self) -> dict[str, str]:
        """Return the names that did not come with the package, and where each comes from."""
        return {name: self._owner(name) or "" for name in self if name not in self._built_in}

    def is_of_program(self, name: str) -> bool:
        """Return whether a script or a notebook registered a class, so that no other process can find it."""
        if name not in self._registered or name in self._declared():
            return False
        return not _PLUGINS or self._registered[name].__module__ == "__main__"

    def problems(self) -> dict[str, str]:
        """Return what is wrong with the classes of installed packages, by name: each is imported once."""
        found = {}
        for name in self._declared():
            try:
                self[name]
            except PluginError as error:
                found[name] = str(error)
        return found

    def _declared(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        return _points(self.group)

    def _owner(self, name: str) -> str | None:
        if name in self._built_in:
            return self._built_in[name]
        if name in self._registered:
            return _place(self._registered[name])
        declared = self._declared().get(name)
        return declared[0].value if declared else None

    def _check_unique(self, name: str, owners: Iterable[str]) -> None:
        if len(places := list(dict.fromkeys(owners))) > 1:
            both = " and ".join(shown(place) for place in places)
            raise PluginError(f"{self._one} must have a unique name, but {name!r} is the name of {both}")

    def _check(self, name: str, entry: object) -> None:
        module, _, attribute = self._base.partition(":")
        base = getattr(import_module(module), attribute)
        if not (isinstance(entry, type) and issubclass(entry, base)):
            got = shown(getattr(entry, "__qualname__", repr(entry)))[:60]
            raise PluginError(f"{self.kind} {name!r} must be a subclass of {module}.{attribute}, but {got} is not")


def import_plugins(names: Iterable[str]) -> None:
    """Import modules, or files that end in `.py`, that a user names, from the current folder or the installed ones."""
    for name in names:
        if name not in _PLUGINS:
            _PLUGINS[name] = _import_plugin(name)


def is_imported(name: str) -> bool:
    """Return whether a user named a plugin, so that it was imported."""
    return name in _PLUGINS


def imported_plugins() -> tuple[str, ...]:
    """Return what `import_plugins` imported, in a form that finds them from any folder: for other processes."""
    return tuple(_PLUGINS.values())


_PLUGINS: dict[str, str] = {}
"""By the name that the user gave; a file by its absolute path."""


def _import_plugin(name: str) -> str:
    if name.endswith(".py"):
        path = Path(name).expanduser().resolve()
        if not path.is_file():
            raise PluginError(f"a plugin must be a module or a file that ends in .py, but there is no {quoted(name)}")
        _imported(f"plugin {quoted(name)}", lambda: _import_file(path))
        return str(path)
    if not all(part.isidentifier() for part in name.split(".")):
        raise PluginError(f"a plugin must be a module or a file that ends in .py, but got {quoted(name[:80])}")
    beside = str(Path.cwd())
    path_before = list(sys.path)
    try:
        if beside not in sys.path:  # as for `python -m`; the folder of an installed command is another
            sys.path.insert(0, beside)
        module = _imported(f"plugin {quoted(name)}", lambda: import_module(name))
    finally:
        sys.path[:] = path_before
    file = getattr(module, "__file__", None)
    # Another process has another current folder: a single file is found again by its path.
    return file if file and "." not in name and Path(file).parent == Path(beside) else name


def _import_file(path: Path) -> object:
    if path.stem in sys.modules and getattr(sys.modules[path.stem], "__file__", None) == str(path):
        return sys.modules[path.stem]
    if (owner := _namesake(path)) is not None:
        raise PluginError(f"a plugin file must have a unique name, but {shown(path.name)} is also {owner}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and type hints look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def _namesake(path: Path) -> str | None:
    """Return which module a plugin file would replace: of Python, of a package, or another plugin file; None: none."""
    if path.stem in sys.stdlib_module_names:
        return "that of a module of Python"
    # A module beside the user is replaced only if it is imported, as it is for `python -m` alone.
    places = [place for place in sys.path if place not in ("", str(Path.cwd()))]
    spec = PathFinder.find_spec(path.stem, places)
    loaded = getattr(sys.modules.get(path.stem), "__file__", None)
    others = [other for other in _PLUGINS.values() if other.endswith(f"/{path.name}")]
    for other in (loaded, spec.origin if spec is not None else None, *others):
        if other is not None and other != str(path):
            return f"that of {shown(other)}"
    return None


def _imported(what: str, load: Callable[[], Loaded]) -> Loaded:
    """Return the imported plugin; whatever it raises becomes one sentence."""
    try:
        return load()
    except (PluginError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a script may end by itself, but not end the command
        words = shown(str(error).partition("\n")[0])[:200]
        raise PluginError(f"{what} must be importable, but {type(error).__name__}: {words}") from error


@cache
def _points(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=group):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def _is_name(name: str) -> bool:
    plain = name.replace("-", "")
    return 0 < len(name) <= 60 and plain.isascii() and plain.isalnum() and plain == plain.lower()


def _place(entry: object) -> str:
    return f"{getattr(entry, '__module__', '?')}:{getattr(entry, '__qualname__', '?')}"


def _first_line(entry: object) -> str:
    return (inspect.getdoc(entry) or "").partition("\n")[0]


def _class_in_source(module: str, attribute: str) -> ast.ClassDef | None:
    spec = importlib.util.find_spec(module)
    source = getattr(spec.loader, "get_source", lambda _: None)(module) if spec is not None else None
    for node in ast.parse(source or "").body:
        if isinstance(node, ast.ClassDef) and node.name == attribute:
            return node
    return None


def _docstring_in(node: ast.ClassDef | None) -> str:
    return "" if node is None else (ast.get_docstring(node) or "").partition("\n")[0]


def _text_in(node: ast.ClassDef | None, attribute: str) -> str:
    """Return the text that a class has under a name, if it is written there."""
    for line in () if node is None else node.body:
        if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) == attribute:
            return str(line.value.value) if isinstance(line.value, ast.Constant) else ""
    return ""
