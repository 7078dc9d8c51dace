"""The part of a config that is about methods: which one a learner has, and its options."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from json import dumps
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter, field_validator, model_validator

from smallgroup import recipes
from smallgroup.methods import METHODS
from smallgroup.registry import PluginError
from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.docstrings import docstring_of
from smallgroup.runtime.section import Section, check_kind
from smallgroup.spaces import SPACES, definitions
from smallgroup.spaces.config import AnySpaceConfig, SpaceConfig

if TYPE_CHECKING:
    from smallgroup.methods.method import Method


KEPT = ("state", "seen")
"""Fields of every method that are no options."""


class LearnerConfig(Section):
    """One learner of the group: its method, and its space where that differs from the group's."""

    method: str = "darts"
    """How the choice of operations is relaxed: see `smallgroup list methods`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the method; what is not named is as published."""
    space: AnySpaceConfig | None = None
    """A space of its own; null: the space of the group."""

    @field_validator("method")
    @classmethod
    def _known(cls, name: str) -> str:
        check_choice("method", name, tuple(METHODS))
        return name

    @model_validator(mode="after")
    def _buildable(self) -> "LearnerConfig":
        check_options(self.method, self.options)
        return self


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a method does not take. Without any, or with a recipe's, torch stays unloaded."""
    if options and options not in recipes.options_of(name):
        build_method(name, options)


def weight_under_limits(name: str) -> float:
    """Return the `cost_weight` that a method has where the final network has limits; 0: it has none. Loads no torch."""
    return float(METHODS.text_of(name, "weight_under_limits") or 0)


def check_space(name: str, space: SpaceConfig) -> None:
    """Refuse a space without the key that a method needs. What a plugin's space can do, its method finds out."""
    key = METHODS.text_of(name, "needs")
    if key and space.name in SPACES.built_in and key not in type(space).model_fields:
        fit = [one.name for one in definitions() if key in one.config.model_fields]
        raise ValueError(
            f"{name} must search a space that has the key space.{key} ({', '.join(fit)}), but {space.name} has none"
        )


def build_method(name: str, options: Mapping[str, Any]) -> "Method":
    """Return a fresh instance of a method, if these are options of it."""
    known = method_options(name)
    given = {}
    for option, value in options.items():
        if option not in known:
            have = ", ".join(known) or "none"
            raise ValueError(f"an option of {name} must be one of: {have}; but got {option[:60]!r}")
        try:
            check_kind(value, known[option])
            given[option] = TypeAdapter(known[option]).validate_python(value)
        except ValueError:
            kind = kind_in_words(known[option])
            raise ValueError(f"option {option} of {name} must be {kind}, but got {str(value)[:60]!r}") from None
    return METHODS[name](**given)


def method_options(name: str) -> dict[str, Any]:
    """Return the options of a method with their types."""
    method = METHODS[name]
    try:
        kinds = get_type_hints(method)
    except (NameError, TypeError) as error:
        raise PluginError(f"types of method {name!r} must be importable, but {type(error).__name__}: {error}") from None
    found = {field.name: kinds[field.name] for field in fields(method) if field.init}
    if unset := [option for option in found if option not in published_options(name)]:
        raise PluginError(f"every option of method {name!r} must have a default, but {unset[0]} has none")
    if taken := [option for option in found if option in KEPT]:
        raise PluginError(
            f"no option of method {name!r} can be called {taken[0]}: every method keeps its {taken[0]} there"
        )
    return found


def help_of_options(name: str) -> dict[str, str]:
    """Return a line on each option of a method: its docstring, what it takes, and its published value."""
    method, published, told = METHODS[name], published_options(name), {}
    for option, kind in method_options(name).items():
        about = docstring_of(method, option)
        value = published[option]
        default = value if isinstance(value, str) else dumps(value, default=str)
        told[option] = f"{about} Takes {kind_in_words(kind)}, by default {default}.".lstrip()
    return told


def published_options(name: str) -> dict[str, Any]:
    """Return the options of a method that need not be given, with the values that they have then."""
    found = {}
    for field in fields(METHODS[name]):
        if field.init and field.default_factory is not MISSING:
            found[field.name] = field.default_factory()
        elif field.init and field.default is not MISSING:
            found[field.name] = field.default
    return found


_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def kind_in_words(kind: Any) -> str:  # noqa: ANN401 -- any annotation
    """Return what an option takes, for people, such as `one of a, b`."""
    inner = get_args(kind)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, inner))
    if get_origin(kind) is tuple:
        return f"a list, each {kind_in_words(inner[0])}"
    return _KINDS.get(kind, str(getattr(kind, "__name__", kind)))
