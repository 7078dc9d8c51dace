"""What a run is: one frozen model, out of a recipe, keywords, dictionaries, YAML and `--set a.b=c`.

Each layer owns its part; here they are put together. A few keys are so common that they may also stand at the top:
dataset, unlabeled, data_root, method, space (a name), learners (a number), lambda and hypergradient. What is not given
comes from the recipe. How keys are read, before they are a config, is in `smallgroup.keys`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from smallgroup import recipes
from smallgroup.data.config import DataConfig
from smallgroup.group.teaching import Teaching
from smallgroup.keys import names
from smallgroup.keys.files import (
    CONFIG,
    LARGEST,
    NotRegisteredError,
    check_run,
    keys_of_any,
    load,
    load_own,
    plugins_in,
)
from smallgroup.keys.forms import SHORT, different, long_form, overlaid
from smallgroup.keys.layers import of_recipe, on_recipe, variant
from smallgroup.keys.names import fields_of, keys_of
from smallgroup.keys.values import seeds_of, value_of
from smallgroup.methods import METHODS
from smallgroup.methods.config import LearnerConfig, build_method, check_options, weight_under_limits
from smallgroup.migrations import as_before
from smallgroup.phases.playoff.config import PlayOffConfig
from smallgroup.phases.search.config import SearchConfig
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.registry import import_plugins
from smallgroup.runner.config import RunConfig
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.plain_yaml import dumped
from smallgroup.runtime.section import Section
from smallgroup.spaces.config import AnySpaceConfig

if TYPE_CHECKING:
    from smallgroup.methods import Method

__all__ = [
    "CONFIG",
    "LARGEST",
    "Config",
    "LearnerConfig",
    "NotRegisteredError",
    "RunConfig",
    "changed",
    "check_key",
    "check_run",
    "fields_of",
    "help_of_keys",
    "keys_for_training",
    "keys_of",
    "keys_of_any",
    "load",
    "load_own",
    "long_form",
    "overlaid",
    "resolve",
    "seeds_of",
    "variant",
]


class Config(Section):
    """The settings of a search and of the training of what it finds."""

    recipe: str = recipes.DEFAULT
    """Preset for every setting you do not specify; `smallgroup list recipes` names them."""
    plugins: tuple[str, ...] = Field(default=(), max_length=MOST["plugins"])
    """Modules or files (.py) that register methods, spaces or data of your own; a run's folder never imports them."""
    seed: int = Field(default=0, ge=0)
    """Seed of every random number: the split, initial weights, the order of images, ..."""
    data: DataConfig = DataConfig()
    """The images, and how they are split and augmented."""
    space: AnySpaceConfig
    """The search space, and the size of the network in the search."""
    learners: tuple[LearnerConfig, ...] = Field(
        default=(LearnerConfig(), LearnerConfig()), min_length=1, max_length=MOST["learners"]
    )
    """Number of learners (1 is the plain method), or a list with an entry for each."""
    methods: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of methods by name, such as {pc-darts: {part: 2}}; a learner's own options override them."""
    search: SearchConfig
    """Length, batches, optimizers and gradients of the search."""
    playoff: PlayOffConfig
    """How candidate cells are compared if `search.answer` is play-off."""
    training: TrainingConfig
    """How the network of the cell is trained from scratch."""
    run: RunConfig = RunConfig()
    """Device, threads, kernels and checkpoints of the run."""

    @model_validator(mode="before")
    @classmethod
    def _on_a_recipe(cls, given: Any) -> Any:  # noqa: ANN401 -- what a user wrote
        if not isinstance(given, Mapping):
            return given
        keys = long_form(given)
        import_plugins(plugins_in(keys))
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
    def _networks_fit_the_space(self) -> "Config":
        for section in (self.training, self.playoff):
            section.network.of(self.space.name)
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
            raise ValueError(names.first_problem(Config, error)) from None

    def options_of(self, learner: LearnerConfig) -> dict[str, Any]:
        """Return the options of a learner's method: its own override those in `methods`."""
        return {**self.methods.get(learner.method, {}), **learner.options}

    def build_method(self, learner: LearnerConfig) -> "Method":
        """Return a new instance of a learner's method."""
        return build_method(learner.method, self.options_of(learner))

    @property
    def data_in_search(self) -> DataConfig:
        """Return the images that a search opens: without teaching, unlabeled images of other data are not needed."""
        if self.teaching.active or self.data.unlabeled in ("split", "train"):
            return self.data
        return self.data.model_copy(update={"unlabeled": "train"})  # the split is the same with them and without

    @property
    def lam(self) -> float:
        """Return the weight of the peers' labels."""
        return self.search.lam

    @property
    def method_names(self) -> str:
        """Return the methods of the learners, each once."""
        return "-".join(dict.fromkeys(learner.method for learner in self.learners))

    @property
    def teaching(self) -> Teaching:
        """Return who learns from whom, unless learners of another search make the labels."""
        search = self.search
        return Teaching(len(self.learners), search.lam, search.labels_from, search.targets, search.human_labels)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values under the names used in files."""
        return self.model_dump(mode="json", by_alias=True)

    def departures(self) -> dict[str, Any]:
        """Return the settings that differ from what the recipe says for such data, space and learners."""
        return different(self.to_dict(), self.of_recipe())

    def of_recipe(self) -> dict[str, Any]:
        """Return what the recipe says for such data, space and learners."""
        named = {"recipe": self.recipe, "dataset": self.data.dataset, "learners": self.to_dict()["learners"]}
        return resolve({**named, "space": self.space.name}).to_dict()

    def penalized(self) -> "Config":
        """Return the config of a whole run: limits of the final network become penalties of methods that have them.

        A penalty counts what is limited, of several the first of RAM, flash, parameters and multiply-adds, which also
        stand for latency. A weight and a cost that were given stay.
        """
        limits = self.training.limits
        weights = {learner.method: weight_under_limits(learner.method) for learner in self.learners}
        if not limits or not any(weights.values()):
            return self
        order = ("ram_kb", "flash_kb", "parameters")
        cost = next((name for name in order if getattr(limits, name) is not None), self.search.cost)
        methods = {**self.methods}
        for name in sorted(name for name, weight in weights.items() if weight):
            methods[name] = {"cost_weight": weights[name], **methods.get(name, {})}
        search = self.search if self.search.cost != "multiply_adds" else self.search.model_copy(update={"cost": cost})
        return self.model_copy(update={"methods": methods, "search": search})

    def of_search(self) -> dict[str, Any]:
        """Return the settings that a search depends on: with others it cannot be resumed."""
        others = {"plugins", "training"} | ({"playoff"} if self.search.answer != "play-off" else set())
        plain = {key: value for key, value in self._as_before().items() if key not in others}
        if self.search.labelers is not None:  # where they lie may change; who they are is in the checkpoints
            plain["search"]["labellers"] = "given"
        return {**plain, "run": self.run.identity}

    def _as_before(self) -> dict[str, Any]:
        """Return plain values as earlier versions have them, for whose runs identities must stay the same."""
        plain = self.to_dict()
        return as_before(plain, of_recipe(plain))

    def of_training(self) -> dict[str, Any]:
        """Return the settings that a training depends on, besides its genotype."""
        keys = ("seed", "data", "training")
        plain = {key: value for key, value in self._as_before().items() if key in keys}
        return {**plain, "run": self.run.identity}

    def to_yaml(self, environment: Mapping[str, Any] | None = None) -> str:
        """Return the text of a config file; `environment` records where the run was made and is not a setting."""
        made = {} if environment is None else {"environment": dict(environment)}
        return dumped({**self.to_dict(), **made})


def resolve(given: Mapping[str, Any], changes: Sequence[str] = ()) -> Config:
    """Build a config from keys and changes such as `search.epochs=3`; raise one sentence that says what is wrong."""
    keys = changed(given, changes)
    return Config(**{str(key): value for key, value in keys.items()})


def changed(given: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Return keys in long form, with changes such as `search.epochs=3` over them."""
    keys = long_form(given)
    for change in changes:
        path, separator, text = change.partition("=")
        if not separator or not path:
            raise ValueError(f"--set takes key=value, but got {change[:80]!r}")
        path = {**SHORT, "search.lam": "search.lambda"}.get(path, path)
        check_key(path)
        above: Any = value_of(path, text)
        for key in reversed(path.split(".")):
            above = {key: above}
        keys = overlaid(keys, above)
    return keys


def keys_for_training(genotype: Path | str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that a search's config gives its training: data, seed, and settings that differ from the recipe.

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


def check_key(path: str) -> None:
    """Refuse a key that a config does not have, and name the nearest one."""
    names.check_key(Config, path)


def help_of_keys() -> dict[str, str]:
    """Return a line on every key of a config that can be set."""
    return names.help_of_keys(Config)
