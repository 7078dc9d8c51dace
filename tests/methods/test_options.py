"""Options of a method of one's own: what a class may not have is said in a line that names the method."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from smallgroup.config import help_of_keys, resolve
from smallgroup.methods import METHODS, Method
from smallgroup.registry import PluginError


@dataclass
class Needing(Method):
    """An option without a default."""

    name: ClassVar[str] = "own"
    strength: float


@dataclass
class Untyped(Method):
    """An option of a type that nobody has imported."""

    name: ClassVar[str] = "own"
    strength: "Nothing" = 1  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Hiding(Method):
    """An option in place of what a search saves."""

    name: ClassVar[str] = "own"
    state: Any = field(default_factory=dict)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Needing, "every option of method 'own' must have a default, but strength has none$"),
        (Untyped, "types of method 'own' must be importable, but NameError: name 'Nothing' is not defined$"),
        (Hiding, "no option of method 'own' can be called state: every method keeps its state there$"),
    ],
)
def test_options_that_cannot_be_set_are_refused(
    method: type[Method], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS._registered, "own", method)
    with pytest.raises(ValueError, match=f"^methods: {message}"):
        resolve({"methods": {"own": {"strength": 1}}})
    config = resolve({"method": "own"})  # without options a class is not looked at before it is used
    with pytest.raises(PluginError, match=f"^{message}"):
        config.build_method(config.learners[0])
    # The keys of all others are still listed.
    assert "methods.pc-darts.part" in (known := help_of_keys())
    assert not any(key.startswith("methods.own.") for key in known)
