"""What a run is: one frozen model, out of a recipe, keywords, dictionaries, YAML and `--set a.b=c`.

Each room owns its part; here they are put together. A few keys are so common that they may also stand at the top:
dataset, unlabeled, data_root, method, space (a name), learners (a number), lambda and hypergradient. What is not given
comes from the recipe.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from smallgroup import recipes
from smallgroup.data import DATASETS
from smallgroup.data.config import MADE, DataConfig
from smallgroup.data.names import recipe_variant
from smallgroup.group.teaching import Teaching
from smallgroup.methods import METHODS
from smallgroup.migrations import as_before, migrated
from smallgroup.phases.playoff.config import PlayOffConfig
from smallgroup.phases.search.config import SearchConfig
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.registry import import_plugins, is_imported
from smallgroup.runner.lock import FILE as LOCK
from smallgroup.runner.place import METRICS
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.checks import check_choice, nearest, suggestion
from smallgroup.runtime.files import read_regular
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.plain_yaml import NotTakenError, dumped, parsed
from smallgroup.runtime.text import shown
from smallgroup.spaces import SPACES
from smallgroup.spaces.config import AnySpaceConfig, SpaceSection, for_space

if TYPE_CHECKING:
    from smallgroup.methods import Method

_FROZEN = ConfigDict(
    frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, use_attribute_docstrings=True
)
SHORT = {
    "dataset": "data.dataset",
    "unlabeled": "data.unlabeled",
    "data_root": "data.data_root",
    "lambda": "search.lambda",
    "lam": "search.lambda",
    "hypergradient": "search.hypergradient",
    "on_nonfinite": "run.on_nonfinite",
    "size": "data.size",
    "skip_bad_images": "data.skip_bad_images",
}
"""Keys that may stand at the top, and where they belong."""
CONFIG = "config.yaml"
"""In the folder of a run."""
DATA = ("dataset", "unlabeled")
"""Keys that name data."""
LARGEST = 200_000
"""Bytes of a config file, which take seconds to read."""


class LearnerConfig(BaseModel):
    """One learner of the group."""

    model_config = _FROZEN

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
    """Refuse options that a method does not take. Without any there is nothing to check, and torch stays unloaded."""
    if options:
        build_method(name, options)


def build_method(name: str, options: Mapping[str, Any]) -> "Method":
    """A fresh instance of a method, if these are options of it."""
    known = method_options(name)
    given = {}
    for option, value in options.items():
        if option not in known:
            have = ", ".join(known) or "none"
            raise ValueError(f"an option of {name} must be one of: {have}; but got {option[:60]!r}")
        try:
            given[option] = TypeAdapter(known[option]).validate_python(value)
        except ValidationError:
            kind = _kind_in_words(known[option])
            raise ValueError(f"option {option} of {name} must be {kind}, but got {str(value)[:60]!r}") from None
    return METHODS[name](**given)


def _kind_in_words(kind: Any) -> str:  # noqa: ANN401
    inner = get_args(kind)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, inner))
    if get_origin(kind) is tuple:
        return f"a list of {_kind_in_words(inner[0])}"
    return str(getattr(kind, "__name__", kind))


def method_options(name: str) -> dict[str, Any]:
    """The options of a method, and of what kind they are."""
    kinds = get_type_hints(METHODS[name])
    return {field.name: kinds[field.name] for field in fields(METHODS[name]) if field.init}


class RunConfig(BaseModel):
    """How a run is carried out."""

    model_config = _FROZEN

    threads: int = Field(default=1, ge=1, le=MOST["threads"])
    """Threads of torch; with two on a busy machine small networks are slower than with one."""
    kernels: Literal["auto", "native", "torch", "plain"] = "auto"
    """What networks are computed with: C++ kernels compiled on this machine, torch operators, or layer by layer."""
    checkpoint_minutes: float = Field(default=10.0, ge=0)
    """A checkpoint is written at the end of an epoch, if the last is two seconds old, and after so many minutes."""
    on_nonfinite: Literal["stop", "skip"] = "stop"
    """When a loss or a gradient is not finite: stop before the update, or leave the batch out and count it."""
    most_skipped: int = Field(default=10, ge=1)
    """Batches in a row that are left out at most; then the run stops after all."""

    @property
    def identity(self) -> dict[str, Any]:
        """What a run is known by. What is done about bad numbers may be decided when it has stopped at one."""
        return self.model_dump(mode="json", exclude={"on_nonfinite", "most_skipped"})


class Config(BaseModel):
    """A search, and the training of what it finds."""

    model_config = _FROZEN

    recipe: str = recipes.DEFAULT
    """Where everything comes from that is not given: see `smallgroup list recipes`."""
    plugins: tuple[str, ...] = Field(default=(), max_length=MOST["plugins"])
    """Modules or files (.py) that register methods, spaces or data of your own; a run's folder never imports them."""
    seed: int = Field(default=0, ge=0)
    """Every random number is a function of it: the split, initial weights, the order of images, ..."""
    data: DataConfig = DataConfig()
    """Which images, and how they are shared out and augmented."""
    space: AnySpaceConfig
    """Which cells may be found, and the size of the network that is searched."""
    learners: tuple[LearnerConfig, ...] = Field(
        default=(LearnerConfig(), LearnerConfig()), min_length=1, max_length=MOST["learners"]
    )
    """How many learners (1 is the plain method), or a list of what each of them is."""
    methods: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of methods by name, such as {pc-darts: {part: 2}}; those of a learner stand above them."""
    search: SearchConfig
    """The course of the search."""
    playoff: PlayOffConfig
    """How candidate cells are compared, where `search.answer` is play-off."""
    training: TrainingConfig
    """How the cell that was found is trained from scratch."""
    run: RunConfig = RunConfig()
    """How the run is carried out."""

    @model_validator(mode="before")
    @classmethod
    def _on_a_recipe(cls, given: Any) -> Any:  # noqa: ANN401 -- what a user wrote
        if not isinstance(given, Mapping):
            return given
        keys = long_form(given)
        plugins = keys.get("plugins", ())
        if isinstance(plugins, list | tuple):  # what else there may be is refused as any other value of a wrong kind
            import_plugins(name for name in plugins if isinstance(name, str))
        return on_recipe(keys)

    @field_validator("methods")
    @classmethod
    def _options_of_methods(cls, given: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name, options in given.items():
            check_choice("a key of methods", name, tuple(METHODS))
            check_options(name, options)
        return given

    @model_validator(mode="after")
    def _learners_can_be_made(self) -> "Config":
        for learner in self.learners:
            check_options(learner.method, self.options_of(learner))
        return self

    @model_validator(mode="after")
    def _group_can_answer(self) -> "Config":
        if self.search.answer != "consensus" or all(learner == self.learners[0] for learner in self.learners):
            return self  # learners that are alike can answer by any rule, and torch stays unloaded
        from smallgroup.phases.search.answer import check_answer  # noqa: PLC0415 -- it loads torch

        images = ImageSpec()  # any will do: rules do not depend on them
        made = [((one.space or self.space).build(images), self.build_method(one)) for one in self.learners]
        check_answer(self.search.answer, made)
        return self

    @model_validator(mode="after")
    def _architectures_first_alone(self) -> "Config":
        search = self.search
        if search.order == "a-v-w" and search.hypergradient != "first-order" and self.teaching.active:
            raise ValueError(
                f"search.order must be v-w-a where learners teach and hypergradient is {search.hypergradient}, because "
                "a group differentiates the steps of V and W that it takes, but it is a-v-w"
            )
        return self

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 -- what a user wrote
        """Take keys like a file's, short ones too; raise a ValueError of one sentence if something is wrong."""
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise ValueError(_sentence(error)) from None

    def options_of(self, learner: LearnerConfig) -> dict[str, Any]:
        """The options of a learner's method: its own above those in `methods`."""
        return {**self.methods.get(learner.method, {}), **learner.options}

    def build_method(self, learner: LearnerConfig) -> "Method":
        """A fresh instance of a learner's method."""
        return build_method(learner.method, self.options_of(learner))

    @property
    def data_in_search(self) -> DataConfig:
        """The images a search opens: where nobody teaches, unlabeled images of other data are not needed."""
        if self.teaching.active or self.data.unlabeled in ("split", "train"):
            return self.data
        return self.data.model_copy(update={"unlabeled": "train"})  # the split is the same with them and without

    @property
    def lam(self) -> float:
        """The weight of the peers' labels."""
        return self.search.lam

    @property
    def method_names(self) -> str:
        """The methods of the learners, each once."""
        return "-".join(dict.fromkeys(learner.method for learner in self.learners))

    @property
    def teaching(self) -> Teaching:
        """Who learns from whom, where no learners of another search make the labels."""
        search = self.search
        return Teaching(len(self.learners), search.lam, search.labels_from, search.targets, search.human_labels)

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names that files have."""
        return self.model_dump(mode="json", by_alias=True)

    def departures(self) -> dict[str, Any]:
        """What a user has given, as far as it differs from what the recipe says for such data, space and learners."""
        return _different(self.to_dict(), self.of_recipe())

    def of_recipe(self) -> dict[str, Any]:
        """What the recipe says for such data, space and learners."""
        named = {"recipe": self.recipe, "dataset": self.data.dataset, "learners": self.to_dict()["learners"]}
        return resolve({**named, "space": self.space.name}).to_dict()

    def of_search(self) -> dict[str, Any]:
        """What a search depends on: a run is resumed with these."""
        others = {"plugins", "training"} | ({"playoff"} if self.search.answer != "play-off" else set())
        plain = {key: value for key, value in self._as_before().items() if key not in others}
        if self.search.labellers is not None:  # where they lie may change; who they are is in the checkpoints
            plain["search"]["labellers"] = "given"
        return {**plain, "run": self.run.identity}

    def _as_before(self) -> dict[str, Any]:
        """Plain values as earlier versions have them, for whose runs identities must stay the same."""
        plain = self.to_dict()
        return as_before(plain, of_recipe(plain))

    def of_training(self) -> dict[str, Any]:
        """What a training depends on, beside its genotype."""
        keys = ("seed", "data", "training")
        plain = {key: value for key, value in self._as_before().items() if key in keys}
        return {**plain, "run": self.run.identity}

    def to_yaml(self, environment: Mapping[str, Any] | None = None) -> str:
        """The text of a config file; `environment` says where the run was made, which is no setting."""
        made = {} if environment is None else {"environment": dict(environment)}
        return dumped({**self.to_dict(), **made})


def long_form(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every key where it belongs; a key that is given in both places is refused."""
    return overlaid({}, given)


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """What a user gives in two places, in long form; of what both have, the upper one."""
    low, high = _sections(below), _sections(above)
    learners: object = None
    for given in (low, high):
        method, number = given.pop("method", None), given.pop("learners", None)
        if method is not None or number is not None:
            learners = _learners(learners, method, number)
    for key, value in high.items():
        if isinstance(value, Mapping) and isinstance(low.get(key, {}), str | int | float | list):
            raise ValueError(f"{key} must be a section of keys, but got {str(low[key])[:60]!r}")
    result = recipes.merged(low, high)
    return result if learners is None else {**result, "learners": learners}


def variant(given: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """The recipe that keys in long form name, and what its variants depend on."""
    learners, methods = given.get("learners") or [{}, {}], _methods_of(given)
    name = given.get("recipe", recipes.DEFAULT)
    what = {
        "dataset": recipe_variant(str(_part(given.get("data"), "dataset", "digits"))),
        "method": next(iter(methods)) if len(methods) == 1 else "",
        "learners": "alone" if isinstance(learners, list | tuple) and len(learners) == 1 else "group",
    }
    space = _part(given.get("space"), "name", None) or recipes.keys(name, {**what, "space": ""})["space"]["name"]
    return name, {**what, "space": str(space)}


def _methods_of(given: Mapping[str, Any]) -> set[str]:
    learners = given.get("learners") or [{}, {}]
    many = isinstance(learners, list | tuple)
    return {str(_part(learner, "method", "darts")) for learner in learners} if many else {""}


def on_recipe(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keys in long form above those of their recipe."""
    below = of_recipe(given)
    space = _part(given.get("space"), "name", None) or below["space"]["name"]
    result = recipes.merged(for_space(below, space), given)
    if isinstance(result.get("learners"), list | tuple):
        result["learners"] = [_in_group(learner, space) for learner in result["learners"]]
    return result


def _in_group(learner: object, space: object) -> object:
    """A learner whose own section `space` does not say which space: that of the group."""
    own = learner.get("space") if isinstance(learner, Mapping) else None
    if not isinstance(learner, Mapping) or not isinstance(own, Mapping) or "name" in own:
        return learner
    return {**learner, "space": {"name": space, **own}}


def of_recipe(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the recipe for such data, space and learners, those of other spaces among them."""
    name, what = variant(given)
    methods, below = _methods_of(given), recipes.keys(name, what)
    # Options of methods that nobody has are left out, and architectures first does not fit second order in a group.
    below["methods"] = {name: options for name, options in below.get("methods", {}).items() if name in methods}
    asked = given.get("search")
    if what["learners"] == "group" and _part(asked, "hypergradient", "first-order") != "first-order":
        below["search"]["order"] = "v-w-a"
    if _part(asked, "order", below["search"].get("order", "v-w-a")) == "v-w-a":  # where a look-ahead is the step taken
        below["search"].pop("clip_lookahead", None)
    # Two ways to say how fast the architecture moves: who gives the one does not mean the recipe's other.
    for one, other in (("lr", "travel"), ("travel", "lr")):
        if _part(_part(asked, "architecture", None), one, None) is not None:
            below["search"]["architecture"][other] = None
    return below


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the first, sections and what is in them, that are not the same in the second."""
    result: dict[str, Any] = {}
    for key, value in one.items():
        if isinstance(value, Mapping) and isinstance(other.get(key), Mapping):
            if inner := _different(value, other[key]):
                result[key] = inner
        elif key not in other or value != other[key]:
            result[key] = value
    return result


def _part(section: object, key: str, default: object) -> object:
    """A key of a section, which may be a model, or anything that a user wrote in its place."""
    return section.get(key, default) if isinstance(section, Mapping) else getattr(section, key, default)


def _sections(given: Mapping[str, Any]) -> dict[str, Any]:
    """Short keys in their sections; `environment` in the file of a run says where it was made and is no setting."""
    result = {key: value for key, value in given.items() if key != "environment"}
    if isinstance(result.get("space"), str):
        result["space"] = {"name": result["space"]}
    for short, path in SHORT.items():
        if short in result:
            room, key = path.split(".")
            section = result.get(room, {})
            if isinstance(section, BaseModel):
                section = section.model_dump(by_alias=True, exclude_unset=True)
            if not isinstance(section, Mapping):
                raise ValueError(f"{room} must be a section of keys, but got {str(section)[:60]!r}")
            if key in section or (key == "lambda" and "lam" in section):
                raise ValueError(f"{short} must be given once, but it is also given as {path}")
            result[room] = {**section, key: result.pop(short)}
    search = result.get("search")
    if isinstance(search, Mapping) and "lam" in search and "lambda" not in search:
        result["search"] = {"lambda" if key == "lam" else key: value for key, value in search.items()}
    return result


def _learners(below: object, method: object, given: object) -> object:
    """The list of learners out of a number, a method for all of them, and the list there was before."""
    counted = isinstance(given, int) and not isinstance(given, bool)
    if given is not None and not counted:
        if not isinstance(given, list | tuple):
            got = str(given)[:60]
            raise ValueError(f"learners must be a number from 1 to 64 or a list of learners, but got {got!r}")
        if method is not None:
            raise ValueError("method names that of all learners, but learners is a list that names them one by one")
        return given
    learners = list(below) if isinstance(below, list | tuple) and below else [{}, {}]
    if counted:
        assert isinstance(given, int)
        if not 1 <= given <= MOST["learners"]:
            raise ValueError(f"1 <= learners <= {MOST['learners']} must hold, but got learners={given}")
        if len(learners) != given:
            if any(learner != learners[0] for learner in learners):
                raise ValueError(
                    f"learners={given} needs learners that are alike, but they are a list of different ones"
                )
            learners = learners[:1] * given
    if method is None:
        return learners
    return [
        learner
        if _part(learner, "method", None) == method
        else {"method": method, "space": _part(learner, "space", None)}
        for learner in learners
    ]


def load(path: Path) -> dict[str, Any]:
    """The keys of a YAML file that a user names: a link or a pipe will do."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"a config file has at most {LARGEST:,} bytes, but {path} has more")
    return _keys(content, path)


def keys_of_any(config: object) -> Mapping[str, Any]:
    """Return the keys of a config given as keys or as the path of a YAML file; None has no keys."""
    if isinstance(config, str | Path) and Path(config).exists():
        return load(Path(config))
    if config is None or isinstance(config, Mapping):
        return config or {}
    got = f"there is no file {shown(config)!r}" if isinstance(config, str | Path) else f"got {str(config)[:60]!r}"
    raise ValueError(f"a config must be a Config, a dictionary of keys or the path of a YAML file, but {got}")


def load_own(path: Path) -> dict[str, Any]:
    """The keys of the file of a run, which an earlier version may have written.

    Plugins that it names are not imported: a folder may come from anywhere. Without what they register it is refused.
    """
    keys = migrated(_keys(read_regular(path, LARGEST), path))
    named = keys.get("plugins")
    plugins = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    if unknown := _not_registered(keys):
        which = " ".join(f"--plugin {shown(name)}" for name in plugins) or "--plugin MODULE"
        raise ValueError(
            f"{shown(path)} needs {unknown}, which is not registered here; import what registers it by {which}"
        )
    return {**keys, "plugins": [name for name in plugins if is_imported(name)]}


def _not_registered(keys: Mapping[str, Any]) -> str | None:
    """What a config names that no registry has; a damaged file may have anything in place of a name."""
    learners = keys.get("learners")
    learners = learners if isinstance(learners, list) else []
    spaces = [keys.get("space"), *(_part(learner, "space", None) for learner in learners)]
    named: list[tuple[str, Collection[str], list[object]]] = [
        ("method", METHODS, [_part(learner, "method", None) for learner in learners]),
        ("space", SPACES, [_part(space, "name", None) for space in spaces]),
        ("dataset", {*DATASETS, *MADE}, [str(_part(keys.get("data"), key, "train")).partition(":")[0] for key in DATA]),
    ]
    for kind, known, names in named:
        for name in names:
            if isinstance(name, str) and name not in known:
                return f"{kind} {shown(name)[:60]!r}"
    return None


def check_run(folder: Path) -> None:
    """Refuse a folder in which no run was begun."""
    if not any((folder / name).exists() for name in (CONFIG, METRICS, LOCK)):
        raise ValueError(f"a run is a folder with {CONFIG} and {METRICS}, but {folder} has neither")


def _keys(content: bytes, path: Path) -> dict[str, Any]:
    try:
        given = parsed(content)
    except NotTakenError as error:
        raise ValueError(f"{path}, line {error.line}: {error}") from None
    except yaml.YAMLError as error:
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
    keys = changed(given, changes)
    config = Config(**{str(key): value for key, value in keys.items()})
    _check_switches(keys, config.to_dict())
    return config


def _check_switches(given: object, taken: object, path: str = "") -> None:
    """Refuse true and false where a number belongs: Python would take them for 1 and 0."""
    if isinstance(given, bool) and not isinstance(taken, bool | str):
        raise ValueError(f"{path} must be a number, but got {str(given).lower()}")
    if isinstance(given, Mapping) and isinstance(taken, Mapping):
        for key in given.keys() & taken.keys():
            _check_switches(given[key], taken[key], f"{path}.{key}".lstrip("."))
    elif isinstance(given, list | tuple) and isinstance(taken, list | tuple):
        for i, (one, other) in enumerate(zip(given, taken, strict=False)):
            _check_switches(one, other, f"{path}.{i}".lstrip("."))


def keys_for_training(genotype: Path | str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the config of a search says of a training: data, seed, and how, where it differs from the recipe.

    What another dataset or recipe has to say, if `given` names one, is left to it. Nothing, if the genotype is not the
    folder of a search.
    """
    place = Path(genotype) / CONFIG
    if not place.is_file():
        return {}
    config, above = resolve(load_own(place)), overlaid({}, given)
    own = config.departures()
    dataset = above.get("data", {}).get("dataset", config.data.dataset)
    data, kept = own.get("data", {}), {"data_root", "workers", "skip_bad_images"}
    if dataset != config.data.dataset:
        data = {key: value for key, value in data.items() if key in kept}
    elif config.data.held_out:  # with another seed too, what was kept from the search is kept from the training
        data = {"split_seed": config.seed, **data}
    # The learners say which of a recipe's variants counts: releases of methods train their cells differently.
    result = {
        "seed": config.seed,
        "data": {**data, "dataset": dataset},
        "learners": config.to_dict()["learners"],
        "run": own.get("run", {}),
    }
    if "recipe" in above:
        return result
    return {**result, "recipe": config.recipe, "training": own.get("training", {})}


def changed(given: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Keys in long form with changes like `search.epochs=3` above them."""
    keys = long_form(given)
    for change in changes:
        path, separator, text = change.partition("=")
        if not separator or not path:
            raise ValueError(f"--set takes key=value, but got {change[:80]!r}")
        path = {**SHORT, "search.lam": "search.lambda"}.get(path, path)
        check_key(path)
        above: Any = _value(path, text)
        for key in reversed(path.split(".")):
            above = {key: above}
        keys = overlaid(keys, above)
    return keys


def seeds_of(text: str) -> list[int]:
    """1-5, or 1,4,7, or both."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first >= 1000 or len(seeds) > 1000:
            raise ValueError(f"seeds must be like 1-5 or 1,4,7, but got {text[:60]!r}")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must differ, but got {text[:60]!r}")
    return seeds


def check_key(path: str) -> None:
    """Refuse a key that a config does not have, and name the nearest one."""
    if path not in _known_keys(path):
        raise ValueError(_no_key(path))


def _known_keys(wanted: str) -> list[str]:
    """Every key, at its place or at the top; of the options of methods, those of the method in `wanted`."""
    of_learners = [f"learners.{name}" for name in LearnerConfig.model_fields]
    room, _, rest = wanted.partition(".")
    method = rest.partition(".")[0]
    of_methods = [f"methods.{name}" for name in METHODS]
    if room == "methods" and method in METHODS:
        of_methods = [f"methods.{method}.{option}" for option in method_options(method)]
    return [*keys_of(Config), *SHORT, "method", *of_learners, *of_methods]


def _no_key(path: str) -> str:
    """What is said of a key that is not there; the place of a learner in the list does not matter."""
    plain = ".".join(part for part in path.split(".") if not part.isdigit())[:80]
    known, section = _known_keys(plain), plain.rpartition(".")[0]
    # A key of the same section, if that is one.
    known = [key for key in known if key.startswith(f"{section}.")] or known
    return f"a config has no key {path[:80]!r}; the nearest is {nearest(plain, known, likeness=0)}"


def keys_of(model: type[BaseModel]) -> list[str]:
    """Every key of a config, sections and what is in them."""
    return [key for key, _ in fields_of(model)]


def help_of_keys() -> dict[str, str]:
    """A line on every key that can be set."""
    found = {
        key: " ".join((field.description or "").split())
        for key, field in fields_of(Config)
        if not any(_is_section(kind) for kind in _kinds(field))
    }
    for name, method in METHODS.usable():
        for option, kind in method_options(name).items():
            own = getattr(method, option)
            found[f"methods.{name}.{option}"] = f"{_kind_in_words(kind)}; as published: {own}"
    return found


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of a model with its field, sections and what is in them."""
    known = model.known_fields() if issubclass(model, SpaceSection) else model.model_fields
    for name, field in known.items():
        key = f"{prefix}{field.alias or name}"
        yield key, field
        for kind in _kinds(field):
            if _is_section(kind):
                yield from fields_of(kind, f"{key}.")


def _kinds(field: FieldInfo) -> tuple[Any, ...]:
    return (field.annotation, *get_args(field.annotation))


def _is_section(kind: Any) -> bool:  # noqa: ANN401
    return isinstance(kind, type) and issubclass(kind, BaseModel) and kind is not LearnerConfig


def _no_section(path: str, value: object) -> str:
    """What is said of a single value in place of a section."""
    plain = ".".join(part for part in path.split(".") if not part.isdigit())
    inside = [key.removeprefix(f"{plain}.") for key in _known_keys(plain) if key.startswith(f"{plain}.")]
    keys = [key for key in inside if "." not in key]
    rule = f"{path} must be a section of keys ({', '.join(keys)}), but got {str(value)[:60]!r}"
    if not keys:
        return rule
    return f"{rule}; {f'write {{{keys[0]}: ...}}' if plain == 'learners' else f'set each, such as {plain}.{keys[0]}'}"


def _value(path: str, text: str) -> object:
    try:
        return parsed(text)
    except NotTakenError as error:
        raise ValueError(f"{path}: {error}") from None
    except yaml.YAMLError:
        raise ValueError(f"a value must be YAML, but got {text[:80]!r}") from None


def _sentence(error: ValidationError) -> str:
    """The first thing that is wrong, by the name it has in files."""
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return _no_key(path)
    if first["type"] in ("model_type", "model_attributes_type"):
        return _no_section(path, first["input"])
    if first["type"] == "literal_error":
        got = suggestion(first["input"], re.findall(r"'([^']*)'", message))
        return f"{path}: {message}, but got {str(first['input'])[:60]!r}{got}"
    told = isinstance(first["input"], dict | list | tuple | BaseModel) or ", but got " in message
    got = "" if told else f", but got {str(first['input'])[:60]!r}"
    return f"{path}: {message}{got}" if path else message
