"""The parts of a config that are about a space: `space`, and the network around a cell.

Every space has some keys of its own beside the common ones. Recipes give the common ones their values; a key of a space
has its default here, in the space's own section, and a recipe may say another value. A config may hold keys of several
spaces side by side: a recipe is for all of them, learners may search different ones, and a cell may be trained beside
one of another space. Each space reads its own. A key that no registered space has is refused, and so is a value that
none of them takes.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    create_model,
    model_validator,
)

from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.section import Section
from smallgroup.spaces import SPACES, definition_of, definitions

if TYPE_CHECKING:
    from smallgroup.spaces.design import NetworkDesign
    from smallgroup.spaces.space import Space


class SpaceSection(Section):
    """A section with common keys, those of one space, and perhaps those of others."""

    model_config = ConfigDict(extra="allow")

    if TYPE_CHECKING:

        def __getattr__(self, key: str) -> Any:  # noqa: ANN401 -- a key of a space
            """Return the value of a key that a space has of its own."""

    @classmethod
    def of_spaces(cls) -> Iterable[type["SpaceSection"]]:
        """Return the sections of this kind that the registered spaces have."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _keys_of_other_spaces(self) -> Self:
        extra = self.__pydantic_extra__ or {}
        for key, value in extra.items():
            extra[key] = _checked(key, value, [one for one in self.of_spaces() if key in one.model_fields])
        return self


class SpaceConfig(SpaceSection):
    """A space and its size; the data decides size, channels and classes of the images. A space adds its keys."""

    name: str
    """The search space; `smallgroup list spaces` names them all."""
    channels: int = Field(ge=1, le=MOST["channels"])
    """Channels of the first cells."""

    @classmethod
    def of_spaces(cls) -> Iterable[type["SpaceSection"]]:
        """Return the `space` sections of all registered spaces."""
        return [definition.config for definition in definitions()]

    def build(self, images: ImageSpec) -> "Space":
        """Return the space for such images."""
        return definition_of(self.name).space(self, images)


class NetworkConfig(SpaceSection):
    """The large network around the cell; the data decides size, channels and classes of the images."""

    channels: int = Field(ge=1, le=MOST["channels"])
    """Channels of a node in the first cells."""

    if TYPE_CHECKING:

        def __init__(self, **keys: Any) -> None:  # noqa: ANN401 -- common keys and those of spaces
            """Take common keys and those of spaces."""

    @classmethod
    def of_spaces(cls) -> Iterable[type["SpaceSection"]]:
        """Return the network sections of all registered spaces."""
        return [definition.network_config for definition in definitions()]

    def of(self, space: str) -> "NetworkConfig":
        """Return the section of a space with the keys that the space has; a value that it does not take is refused.

        Another space may have a key of the same name, and take other values.
        """
        section = definition_of(space).network_config
        try:
            return section(**_only(section, self.model_dump()))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            key, got = ".".join(map(str, first["loc"])), str(first["input"])[:60]
            raise ValueError(f"{key} of networks of {space}: {first['msg']}, but got {got!r}") from None

    def design(self, images: ImageSpec, space: str) -> "NetworkDesign":
        """Return the network for such images around a cell of a space."""
        return definition_of(space).design(self.of(space), images)


def space_config(given: object) -> object:
    """Return the section of the space that `name` names; what is no section is left to the reader."""
    if not isinstance(given, Mapping) or "name" not in given:
        return given
    name = given["name"]
    if not isinstance(name, str):
        return given
    return definition_of(name).config.model_validate(given)


def for_space(recipe: Mapping[str, Any], name: object) -> dict[str, Any]:
    """Return the keys of a recipe without those of other spaces, and with every key that networks of this space have.

    A recipe is for all spaces, but a run writes down its own keys alone, and all of them.
    """
    if not isinstance(name, str) or name not in SPACES:
        return dict(recipe)  # left to who reads the name
    definition = definition_of(name)
    result = {**recipe, "space": _only(definition.config, recipe["space"])}
    for section in ("training", "playoff"):
        keys = recipe[section]
        own = _only(definition.network_config, keys["network"])
        result[section] = {**keys, "network": {**own_defaults(definition.network_config), **own}}
    return result


def own_defaults(section: type[SpaceSection]) -> dict[str, Any]:
    """Return the keys that a space has of its own, with their defaults."""
    fields = section.model_fields.items()
    return {key: field.get_default(call_default_factory=True) for key, field in fields if not field.is_required()}


def _only(section: type[BaseModel], keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key in section.model_fields}


AnySpaceConfig = Annotated[SerializeAsAny[SpaceConfig], BeforeValidator(space_config)]
"""The section `space` of whatever space it names."""


def _checked(key: str, value: object, owners: Iterable[type[BaseModel]]) -> object:
    """Return the value of a key that one of its owners takes."""
    problem: ValidationError | None = None
    for owner in owners:
        try:
            return getattr(_alone(owner, key).model_validate({key: value}), key)
        except ValidationError as error:
            problem = error
    if problem is not None:
        raise problem
    raise ValidationError.from_exception_data(
        "section", [{"type": "extra_forbidden", "loc": (key,), "input": value}], hide_input=False
    )


@cache
def _alone(owner: type[BaseModel], key: str) -> type[BaseModel]:
    """Return a model of a section that has this key alone, to check its value."""
    field = owner.model_fields[key]
    # Built from the key itself: a config of a space may have keys that must be given.
    made: type[BaseModel] = create_model("section", __base__=Section, **{key: (field.annotation, field)})  # type: ignore[call-overload]
    return made
