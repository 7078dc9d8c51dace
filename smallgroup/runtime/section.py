"""The base of every section of a config or a study: frozen, without unknown keys, and each value of its own kind."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

WRONG_KIND = "wrong_kind"
"""The type of the error; its message begins with a verb, so that the name of the key may stand before it."""
LONGEST = 60
"""Characters of a value that may enter a sentence."""


class Section(BaseModel):
    """A section of keys.

    Pydantic alone would take true for 1, the text "1_000" for 1000 and "no" for false. YAML 1.2 has no such numbers and
    switches, and in Python they are mistakes too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _of_its_kind(cls, value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 -- what a user wrote
        assert info.field_name is not None
        check_kind(value, cls.model_fields[info.field_name].annotation)
        return value


def check_kind(value: object, kind: object) -> None:
    """Refuse texts and switches where a type wants numbers, and texts and numbers where it wants a switch."""
    _check(value, list(_kinds(kind)))


def _check(value: object, kinds: list[object]) -> None:
    if isinstance(value, list | tuple | Mapping):
        for inner in value.values() if isinstance(value, Mapping) else value:
            _check(inner, kinds)
        return
    numbers, switch = any(kind in kinds for kind in (int, float)), bool in kinds
    words = [kind for kind in kinds if isinstance(kind, str)]
    if isinstance(value, bool):
        wrong = numbers and not switch
    elif isinstance(value, str | bytes):
        wrong = (numbers or switch) and str not in kinds and value not in words
    else:
        wrong = isinstance(value, int | float) and switch and not numbers
    if wrong:
        number = "a number" if float in kinds else "a whole number"
        wanted = [*([number] if numbers else []), *(["true or false"] if switch else []), *words]
        got = repr(value[:LONGEST]) if isinstance(value, str | bytes) else str(value)[:LONGEST].lower()
        said = {"wanted": " or ".join(wanted), "got": got}
        raise PydanticCustomError(WRONG_KIND, "must be {wanted}, but got {got}", said)


def _kinds(kind: object) -> Iterator[object]:
    """Yield the types that a type is made of, and the words of a choice."""
    if get_origin(kind) is Literal:
        yield from (word if isinstance(word, str) else type(word) for word in get_args(kind))
    elif inner := get_args(kind):
        for one in inner:
            yield from _kinds(one)
    else:
        yield kind
