"""The names of keys: which a config has, a line of help on each, and what is said of one that is not there."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from smallgroup.keys.forms import SHORT
from smallgroup.methods import METHODS
from smallgroup.methods.config import LearnerConfig, help_of_options, method_options
from smallgroup.registry import PluginError
from smallgroup.runtime.checks import nearest, suggestion
from smallgroup.runtime.docstrings import docstring_of
from smallgroup.runtime.section import WRONG_KIND
from smallgroup.spaces.config import SpaceSection


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every key of a model with its field, sections and what is in them."""
    for key, field, _ in _with_help(model, prefix):
        yield key, field


def _with_help(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo, Callable[[], str]]]:
    """Yield every key of a model with its field and what finds its line of help."""
    owners = [model, *model.of_spaces()] if issubclass(model, SpaceSection) else [model]
    known = {name: (owner, field) for owner in reversed(owners) for name, field in owner.model_fields.items()}
    for name in dict.fromkeys(name for owner in owners for name in owner.model_fields):
        owner, field = known[name]
        key = f"{prefix}{field.alias or name}"
        yield key, field, partial(docstring_of, owner, name)
        for kind in _kinds(field):
            if _is_section(kind):
                yield from _with_help(kind, f"{key}.")


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return every key of a config, sections and what is in them."""
    return [key for key, _ in fields_of(model)]


def help_of_keys(model: type[BaseModel]) -> dict[str, str]:
    """Return a line on every key that can be set."""
    found = {
        key: " ".join((field.description or find_help()).split())
        for key, field, find_help in _with_help(model)
        if not any(_is_section(kind) for kind in _kinds(field))
    }
    for name, _ in METHODS.usable():
        with suppress(PluginError):  # options that cannot be set: only a search with the method is refused
            found |= {f"methods.{name}.{option}": line for option, line in help_of_options(name).items()}
    return found


def check_key(model: type[BaseModel], path: str) -> None:
    """Refuse a key that a config does not have, and name the nearest one."""
    if path not in _known_keys(model, path):
        raise ValueError(_no_key(model, path))


def first_problem(model: type[BaseModel], error: ValidationError) -> str:
    """Return one sentence on the first thing that is wrong, by the name it has in files."""
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return _no_key(model, path)
    if first["type"] in ("model_type", "model_attributes_type"):
        return _no_section(model, path, first["input"])
    if first["type"] == WRONG_KIND:
        return f"{path} {message}"
    if first["type"] == "literal_error":
        got = suggestion(first["input"], re.findall(r"'([^']*)'", message))
        return f"{path}: {message}, but got {str(first['input'])[:60]!r}{got}"
    told = isinstance(first["input"], dict | list | tuple | BaseModel) or ", but got " in message
    got = "" if told else f", but got {str(first['input'])[:60]!r}"
    return f"{path}: {message}{got}" if path else message


def _known_keys(model: type[BaseModel], wanted: str) -> list[str]:
    """Return every key, in its section or at the top level; of method options, those of the method in `wanted`."""
    of_learners = [f"learners.{name}" for name in LearnerConfig.model_fields]
    room, _, rest = wanted.partition(".")
    method = rest.partition(".")[0]
    of_methods = [f"methods.{name}" for name in METHODS]
    if room == "methods" and method in METHODS:
        of_methods = [f"methods.{method}.{option}" for option in method_options(method)]
    return [*keys_of(model), *SHORT, "method", *of_learners, *of_methods]


def _no_key(model: type[BaseModel], path: str) -> str:
    """Return the error text for an unknown key; the index of a learner in the list does not matter."""
    plain = ".".join(part for part in path.split(".") if not part.isdigit())[:80]
    known, section = _known_keys(model, plain), plain.rpartition(".")[0]
    # A key of the same section, if that is one.
    known = [key for key in known if key.startswith(f"{section}.")] or known
    return f"a config has no key {path[:80]!r}; the nearest is {nearest(plain, known, likeness=0)}"


def _no_section(model: type[BaseModel], path: str, value: object) -> str:
    """Return the error text for a single value in place of a section."""
    plain = ".".join(part for part in path.split(".") if not part.isdigit())
    inside = [key.removeprefix(f"{plain}.") for key in _known_keys(model, plain) if key.startswith(f"{plain}.")]
    keys = [key for key in inside if "." not in key]
    rule = f"{path} must be a section of keys ({', '.join(keys)}), but got {str(value)[:60]!r}"
    if not keys:
        return rule
    return f"{rule}; {f'write {{{keys[0]}: ...}}' if plain == 'learners' else f'set each, such as {plain}.{keys[0]}'}"


def _kinds(field: FieldInfo) -> tuple[Any, ...]:
    return (field.annotation, *get_args(field.annotation))


def _is_section(kind: Any) -> bool:  # noqa: ANN401
    return isinstance(kind, type) and issubclass(kind, BaseModel) and kind is not LearnerConfig
