"""What a run is: one frozen model, out of keywords, dictionaries, YAML and `--set a.b=c`.

Each room owns its part; here they are put together. A few keys are so common that they may also stand at the top:
dataset, unlabeled, data_root, method, space (a name), learners (a number), lambda and hypergradient.
"""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from smallgroup.data import DataConfig
from smallgroup.methods import METHODS, Method
from smallgroup.phases.search.config import SearchConfig
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces.config import SpaceConfig

_FROZEN = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
SHORT = {
    "dataset": "data.dataset",
    "unlabeled": "data.unlabeled",
    "data_root": "data.data_root",
    "lambda": "search.lambda",
    "lam": "search.lambda",
    "hypergradient": "search.hypergradient",
}
"""Keys that may stand at the top, and where they belong."""
LARGEST = 1_000_000
"""Bytes of a config file."""


class LearnerConfig(BaseModel):
    """One learner of the group."""

    model_config = _FROZEN

    method: str = "darts"
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the method; what is not named is as published."""
    space: SpaceConfig | None = None
    """None: the space of the group."""

    @field_validator("method")
    @classmethod
    def _known(cls, name: str) -> str:
        check_choice("method", name, tuple(METHODS))
        return name

    def build_method(self) -> Method:
        """A fresh instance of the method."""
        return METHODS[self.method](**self.options)

    @model_validator(mode="after")
    def _buildable(self) -> "LearnerConfig":
        try:
            self.build_method()
        except TypeError:
            given = ", ".join(self.options)
            raise ValueError(f"{self.method} does not have all of the options {given}") from None
        return self


class RunConfig(BaseModel):
    """How a run is carried out."""

    model_config = _FROZEN

    threads: int = Field(default=1, ge=1)
    """Of torch; with two on a busy machine small networks are slower than with one."""
    checkpoint_minutes: float = Field(default=10.0, ge=0)
    """A checkpoint is written at the end of every epoch, and after so many minutes in between."""


class Config(BaseModel):
    """A search."""

    model_config = _FROZEN

    seed: int = Field(default=0, ge=0)
    data: DataConfig = DataConfig()
    space: SpaceConfig = SpaceConfig()
    learners: tuple[LearnerConfig, ...] = Field(default=(LearnerConfig(), LearnerConfig()), min_length=1)
    search: SearchConfig = SearchConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, given: Any) -> Any:  # noqa: ANN401 -- what a user wrote
        return long_form(given) if isinstance(given, Mapping) else given

    @property
    def lam(self) -> float:
        """The weight of the peers' labels."""
        return self.search.lam

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names that files have."""
        return self.model_dump(mode="json", by_alias=True)

    def to_yaml(self) -> str:
        """The text of a config file."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False)


def long_form(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every key where it belongs; a key that is given in both places is refused."""
    result = {key: dict(value) if isinstance(value, Mapping) else value for key, value in given.items()}
    if isinstance(result.get("space"), str):
        result["space"] = {"name": result["space"]}
    if "method" in result or isinstance(result.get("learners"), int):
        result["learners"] = _learners(result.pop("method", None), result.get("learners", 2))
    for short, path in SHORT.items():
        if short in result:
            room, key = path.split(".")
            section = result.setdefault(room, {})
            if isinstance(section, BaseModel):
                section = result[room] = section.model_dump(by_alias=True, exclude_unset=True)
            if not isinstance(section, dict):
                raise ValueError(f"{room} must be a section of keys, but got {str(section)[:60]!r}")
            if key in section or (key == "lambda" and "lam" in section):
                raise ValueError(f"{short} must be given once, but it is also given as {path}")
            section[key] = result.pop(short)
    return result


def _learners(method: object, learners: object) -> object:
    if isinstance(learners, bool) or not isinstance(learners, int):
        if method is None:
            return learners
        raise ValueError("method names that of all learners, but learners is a list that names them one by one")
    if not 1 <= learners <= 64:
        raise ValueError(f"1 <= learners <= 64 must hold, but got learners={learners}")
    return [{} if method is None else {"method": method} for _ in range(learners)]


def load(path: Path) -> dict[str, Any]:
    """The keys of a YAML file."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"a config file has at most {LARGEST:,} bytes, but {path} has more")
        given = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        where = "" if place is None else f", line {place.line + 1}"
        raise ValueError(f"a config must be YAML, but {path}{where} is not") from None
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise ValueError(f"a config must be keys and values, but {path} is not")
    return given


def resolve(given: Mapping[str, Any], changes: Sequence[str] = ()) -> Config:
    """A config out of keys and of changes like `search.epochs=3`, or one sentence that says what is wrong."""
    keys = long_form(given)
    for change in changes:
        path, separator, text = change.partition("=")
        if not separator or not path:
            raise ValueError(f"--set takes key=value, but got {change[:80]!r}")
        path = SHORT.get(path, path)
        check_key(path)
        _set(keys, path.split("."), _value(text))
    try:
        return Config.model_validate(keys)
    except ValidationError as error:
        raise ValueError(_sentence(error)) from None


def check_key(path: str) -> None:
    """Refuse a key that a config does not have, and name the nearest one."""
    known = keys_of(Config)
    if path not in known:
        near = difflib.get_close_matches(path, known, n=1, cutoff=0.0)
        raise ValueError(f"a config has no key {path[:80]!r}; the nearest is {near[0]}")


def keys_of(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every key of a config, sections and what is in them."""
    found = []
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        found.append(key)
        kinds = (field.annotation, *get_args(field.annotation))
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind is not LearnerConfig:
                found += keys_of(kind, f"{key}.")
    return found


def _set(keys: dict[str, Any], path: list[str], value: object) -> None:
    for key in path[:-1]:
        section = keys.setdefault(key, {})
        if not isinstance(section, dict):
            raise ValueError(f"{key} must be a section of keys to set one of them, but it is {str(section)[:60]!r}")
        keys = section
    keys[path[-1]] = value


def _value(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise ValueError(f"a value must be YAML, but got {text[:80]!r}") from None


def _sentence(error: ValidationError) -> str:
    """The first thing that is wrong, by the name it has in files."""
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = keys_of(Config)
        near = difflib.get_close_matches(path, known, n=1, cutoff=0.0)
        return f"a config has no key {path[:80]!r}; the nearest is {near[0]}"
    got = (
        "" if isinstance(first["input"], dict | list | tuple | BaseModel) else f", but got {str(first['input'])[:60]!r}"
    )
    return f"{path}: {message}{got}" if path else message
