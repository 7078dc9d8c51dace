"""Where every value of a config comes from: you, a recipe, a variant of it, the method, the space or the key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any

from smallgroup import recipes
from smallgroup.config import Config, changed, fields_of, help_of_keys, resolve, variant
from smallgroup.methods import METHODS
from smallgroup.methods.config import published_options

YOU, METHOD, SPACE, DEFAULT = "you", "method", "space", "default"
_OF_THE_METHOD = {
    "search.architecture.lr": "lr",
    "search.architecture.betas": "betas",
    "search.architecture.weight_decay": "weight_decay",
    "search.architecture.clip": "clip",
}
"""Keys whose null stands for a setting of the method's own optimizer."""


@dataclass(frozen=True)
class KeyValue:
    """A key of a config, its value, where that comes from, and a line of help."""

    key: str
    value: Any
    origin: str
    help: str

    @property
    def line(self) -> str:
        """Return value, origin and help on one line."""
        return f"{dumps(self.value)} ({self.origin}). {self.help}"


def key_values(given: Mapping[str, Any], changes: Sequence[str] = ()) -> list[KeyValue]:
    """Return every key that can be set, with its value under what a user gives, and where the value comes from."""
    keys = changed(given, changes)
    config = resolve(keys)
    final, name_and_what = config.to_dict(), variant(keys)
    layers = [(YOU, keys), *reversed(recipes.layers(*name_and_what))]
    names = {learner.method for learner in config.learners}
    sections, found = dict(fields_of(Config)), []
    for key, words in help_of_keys().items():
        if key.startswith("methods."):
            name, option = key.split(".")[1:]
            # A config has the options of its own methods alone; the recipe's for others are what they would get.
            published = (published_options(name).get(option), f"{METHOD} {name}")
            value, origin = next(((_at(own, key), of) for of, own in layers if _has(own, key)), published)
        elif not _has(final, key):
            if not _in_null_section(final, key):
                continue  # a key of another space
            value, origin = _plain(sections[key].get_default(call_default_factory=True)), DEFAULT
        else:
            value = _at(final, key)
            origin = _origin(key, value, layers)
            if value is None and len(names) == 1:
                value, origin = _of_the_method(key, next(iter(names)), origin, travels=_travels(final))
            if origin == DEFAULT and (key.startswith("space.") or ".network." in key):
                origin = f"{SPACE} {config.space.name}"
        found.append(KeyValue(key, value, origin, words))
    return found


def _origin(key: str, value: object, layers: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the top layer that has the key with this value; the recipe may have left one out that does not fit."""
    for name, keys in layers:
        if _has(keys, key) and (name == YOU or _plain(_at(keys, key)) == _plain(value)):
            return name
    return DEFAULT


def _of_the_method(key: str, name: str, origin: str, *, travels: bool) -> tuple[Any, str]:
    """Return the value and its origin where a null key leaves the choice to the method."""
    method = METHODS[name]
    if key == "search.architecture_warmup":
        return method.warmup, f"{METHOD} {name}"
    if key in _OF_THE_METHOD and not (key.endswith(".lr") and travels):
        return getattr(method.optimizer, _OF_THE_METHOD[key]), f"{METHOD} {name}"
    return None, origin


def _travels(final: Mapping[str, Any]) -> bool:
    """Return whether the rate of the architecture follows from `travel`."""
    return _at(final, "search.architecture.travel") is not None


def _has(keys: Mapping[str, Any], key: str) -> bool:
    here: Any = keys
    for part in key.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return True


def _in_null_section(final: Mapping[str, Any], key: str) -> bool:
    """Return whether a key is in a section that is null, such as `training.group`, and gets its default with it."""
    parts = key.split(".")
    above = [".".join(parts[:i]) for i in range(1, len(parts))]
    return any(_has(final, section) and _at(final, section) is None for section in above)


def _at(keys: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 -- any value of a config
    here: Any = keys
    for part in key.split("."):
        here = here.get(part) if isinstance(here, Mapping) else None
    return here


def _plain(value: object) -> object:
    """Return values as files have them: a tuple becomes a list."""
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
