"""The recipes: what they say, that every key has its line of help, and that the user's keys override them."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from smallgroup import recipes
from smallgroup.config import Config, check_key, fields_of, overlaid, resolve
from smallgroup.group.teaching import Teaching
from smallgroup.methods import METHODS
from smallgroup.methods.config import build_method
from smallgroup.phases.search.schedule import schedule_of
from smallgroup.spaces import SPACES

DATASETS = ("digits", "cifar10", "cifar100", "imagenet", "folder:images")


@pytest.mark.parametrize("name", recipes.names())
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("space", ["darts", "nas-bench-201"])
def test_every_recipe_is_a_config_for_all_data_and_spaces(name: str, dataset: str, space: str) -> None:
    config = resolve({"recipe": name, "dataset": dataset, "space": space})
    assert (config.recipe, config.data.dataset, config.space.name) == (name, dataset, space)


@pytest.mark.parametrize("name", recipes.names())
def test_every_key_has_a_line_of_help(name: str) -> None:
    lines = [line for line in recipes.text(name).splitlines() if re.match(r"\s+[a-z_]+: \S", line)]
    assert len(lines) > 20
    for line in lines:
        assert re.search(r"  # \S.{5,}$", line) or "about:" in line or "for:" in line, line


def leaves(section: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for key, value in section.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
    return found


@pytest.mark.parametrize("name", recipes.names())
def test_every_key_is_one_of_a_config_and_keeps_its_value(name: str) -> None:
    recipe = yaml.safe_load(recipes.text(name))
    assert recipe.keys() <= {"about", "config", "variants", "rows", "references"}
    for part in (recipe, *recipe["variants"]):
        for key in leaves(part["config"]):
            check_key(key)
    for variant in recipe["variants"]:
        assert variant["for"].keys() <= {"dataset", "space", "method", "learners"}
        assert all(isinstance(wanted, list) for wanted in variant["for"].values())


def test_the_paper() -> None:
    config = resolve({"recipe": "paper", "dataset": "cifar10"})
    assert (config.data.unlabeled, config.space.name, config.space.channels, config.space.cells) == (
        "cifar100",
        "darts",
        16,
        8,
    )
    search = config.search
    assert (search.epochs, search.steps_per_epoch, search.lam, len(config.learners)) == (50, None, 1.0, 2)
    assert set(search.batch_size.model_dump().values()) == {50}
    assert (search.hypergradient, search.radius, search.label_path, search.order) == (
        "finite-difference",
        0.01,
        False,
        "v-w-a",
    )
    assert (search.v_warmup, search.architecture_warmup) == (0, None)
    weights, architecture = search.weights, search.architecture
    assert (weights.lr, weights.min_lr, weights.momentum, weights.weight_decay) == (0.025, 0.001, 0.9, 3e-4)
    assert (architecture.lr, architecture.betas, architecture.weight_decay) == (3e-4, (0.5, 0.999), 1e-3)
    assert resolve({"recipe": "paper", "dataset": "cifar100"}).data.unlabeled == "cifar10"
    assert resolve({"recipe": "paper", "dataset": "imagenet"}).data.unlabeled == "split"


def test_the_released_code() -> None:
    config = resolve({"recipe": "released-code", "dataset": "cifar10"})
    assert (config.data.unlabeled, config.data.order) == ("train", "file")
    search = config.search
    assert (search.hypergradient, search.order, search.v_warmup, search.architecture.clip) == (
        "first-order",
        "a-v-w",
        0.1,
        5.0,
    )


def test_rows_that_teach_follow_the_equations_and_others_do_not() -> None:
    rows = {(row.recipe, row.table, row.name): resolve(row.keys) for row in recipes.rows()}
    assert len(rows) == len(recipes.rows()) == 28 + 7 + 29
    for (recipe, _, name), config in rows.items():
        group = "SGL" in name
        assert len(config.learners) == (2 if group else 1)
        second = (group and recipe == "paper") or "2nd" in name or name == "R-DARTS"
        assert config.search.hypergradient == ("finite-difference" if second else "first-order"), name
        weights_first = (group and second) or config.learners[0].method in ("gdas", "proxyless")
        assert config.search.order == ("v-w-a" if weights_first else "a-v-w"), name
        assert config.search.clip_lookahead == weights_first, name


@pytest.mark.parametrize(
    ("method", "batch", "rate", "lowest", "architecture"),
    [
        ("darts", 64, 0.025, 0.001, None),
        ("darts-minus", 64, 0.025, 0.001, None),
        ("p-darts", 96, 0.025, 0.0, None),
        ("pc-darts", 256, 0.1, 0.0, None),
        ("gdas", 256, 0.025, 0.001, None),
        ("fair-darts", 128, 0.005, 0.001, None),
        ("noisy-darts", 128, 0.05, 0.001, None),
        ("asap", 64, 0.025, 0.001, None),
    ],
)
def test_alone_the_settings_are_the_method_s_own_and_in_a_group_the_paper_s(
    method: str, batch: int, rate: float, lowest: float, architecture: float | None
) -> None:
    alone, group = (
        resolve({"recipe": "paper", "dataset": "cifar10", "method": method, "learners": k}).search for k in (1, 2)
    )
    assert (alone.batch_size.train, alone.batch_size.validation) == (batch, batch)
    assert (alone.weights.lr, alone.weights.min_lr, alone.architecture.lr) == (rate, lowest, architecture)
    assert set(group.batch_size.model_dump().values()) == {50}
    assert (group.weights.lr, group.weights.min_lr, group.architecture.lr) == (0.025, lowest, 3e-4)
    assert group.epochs == (75 if method == "p-darts" else 50)
    assert alone.epochs == (250 if method == "gdas" else group.epochs)


def test_published_settings_of_further_methods() -> None:
    def own(method: str, **more: Any) -> Config:
        return resolve({"recipe": "paper", "dataset": "cifar10", "method": method, "learners": 1, **more})

    assert (own("snas").search.epochs, own("darts-plus").search.epochs) == (150, 60)
    dropped = own("drop-nas")
    assert (dropped.space.cells, dropped.search.epochs, dropped.search.batch_size.train) == (14, 76, 96)
    weights = dropped.search.weights
    assert (weights.lr, weights.min_lr, weights.clip) == (0.0375, 0.0015, 3.0)
    gates = own("bayes-nas")
    assert (gates.space.channels, gates.search.batch_size.train, gates.search.weights.lr) == (36, 18, 0.1)
    assert (gates.search.epochs, gates.search.architecture_warmup, gates.search.weights.weight_decay) == (2, 0.5, 1e-4)
    assert own("gdas", space="nas-bench-201").search.batch_size.train == 64
    proxyless, direct = own("proxyless").search, own("dsnas", dataset="imagenet").search
    assert (proxyless.epochs, proxyless.batch_size.train, proxyless.weights.weight_decay) == (160, 256, 4e-5)
    assert (direct.epochs, direct.batch_size.train) == (240, 1024)
    assert (direct.weights.lr, direct.weights.warmup_epochs) == (0.5, 5)
    benchmark = own("dr-nas", space="nas-bench-201")
    assert benchmark.search.epochs == 100
    assert benchmark.build_method(benchmark.learners[0]).none  # type: ignore[attr-defined]
    assert (benchmark.search.architecture.lr, own("dr-nas").search.architecture.lr) == (3e-4, None)  # None: 6e-4
    assert {own(name, space="nas-bench-201").search.epochs for name in ("sdarts-rs", "sdarts-adv", "beta-darts")} == {
        100
    }
    decayed = own("r-darts").search
    assert (decayed.weights.weight_decay, decayed.hypergradient) == (0.0027, "finite-difference")
    warmer = own("snas", space="nas-bench-201")
    assert warmer.build_method(warmer.learners[0]).first_temperature == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", METHODS.built_in)
def test_the_architecture_moves_in_every_recipe(name: str) -> None:
    """No recipe delays the architecture until epochs in which the method freezes it."""
    for recipe in ("quick", "paper"):
        for space in SPACES.built_in:
            keys = {"recipe": recipe, "dataset": "cifar10", "method": name, "space": space}
            try:
                config = resolve({**keys, "learners": 2})
            except ValueError:  # a space that the method does not search
                assert name == "p-darts"
                continue
            search, method = config.search, config.build_method(config.learners[0])
            teaching = Teaching(2, search.lam, search.labels_from, search.targets, search.human_labels)
            schedule = schedule_of(search, search.steps_per_epoch or 20, teaching, method)
            moving = 0
            for step in range(schedule.steps):
                method.schedule(schedule.progress(step))
                moving += schedule.kind(step) == "all" and method.trains_architecture(schedule.progress(step))
            assert moving >= 0.05 * schedule.steps, (recipe, space)


@pytest.mark.parametrize("space", ["darts", "nas-bench-201"])
def test_gdas_alone_steps_weights_first_with_nesterov(space: str) -> None:
    keys = {"recipe": "paper", "dataset": "cifar10", "method": "gdas", "space": space}
    alone, group = (resolve({**keys, "learners": k}).search for k in (1, 2))
    assert (alone.order, alone.hypergradient) == ("v-w-a", "first-order")
    assert (alone.weights.nesterov, alone.weights.momentum, alone.weights.weight_decay) == (True, 0.9, 5e-4)
    assert (group.weights.nesterov, group.weights.weight_decay) == (False, 3e-4)


@pytest.mark.parametrize(
    ("recipe", "method", "warmup"),
    [
        ("paper", "darts", "full"),
        ("paper", "pc-darts", "full"),
        ("paper", "p-darts", "decayed"),
        ("paper", "darts-minus", "decayed"),
        ("released-code", "darts", "decayed"),
        ("released-code", "pc-darts", "full"),
    ],
)
def test_warm_up_on_imagenet_is_that_of_each_code(recipe: str, method: str, warmup: str) -> None:
    training = resolve({"recipe": recipe, "dataset": "imagenet", "method": method}).training
    assert (training.warmup_epochs, training.warmup_rate) == (5, warmup)


def test_pc_darts_on_imagenet() -> None:
    keys = {"recipe": "paper", "dataset": "imagenet", "method": "pc-darts"}
    for learners, batch, rate, warmup, architecture in ((1, 1024, 0.5, 5, 6e-3), (2, 50, 0.025, 0, 3e-4)):
        config = resolve({**keys, "learners": learners})
        search = config.search
        assert config.build_method(config.learners[0]).part == 2  # type: ignore[attr-defined]
        assert (search.batch_size.train, search.weights.lr, search.weights.warmup_epochs) == (batch, rate, warmup)
        assert (search.architecture.lr, search.architecture_warmup, config.data.unlabeled) == (
            architecture,
            0.7,
            "split",
        )


def test_the_published_code_on_other_methods() -> None:
    keys = {"recipe": "released-code", "dataset": "cifar10"}
    staged, partial = (resolve({**keys, "method": method}) for method in ("p-darts", "pc-darts"))
    assert (staged.search.epochs, staged.search.batch_size.train, staged.space.cells) == (75, 96, 5)
    assert staged.build_method(staged.learners[0]).dropout == (0.1, 0.4, 0.7)  # type: ignore[attr-defined]
    assert (partial.search.epochs, partial.search.v_warmup, partial.search.weights.lr) == (60, 0.25, 0.1)
    assert {one.search.architecture.lr for one in (staged, partial)} == {6e-4}
    assert {one.training.drop_path for one in (staged, partial)} == {0.3}
    imagenet = resolve({**keys, "dataset": "imagenet", "method": "pc-darts"}).search
    assert (imagenet.epochs, imagenet.weights.lr, imagenet.weights.warmup_epochs) == (55, 0.5, 5)


def test_quick_sizes_the_stages_of_p_darts() -> None:
    config = resolve({"method": "p-darts"})
    method: Any = config.build_method(config.learners[0])
    assert (config.space.name, config.space.cells, method.added) == ("darts", 3, (1, 2))
    assert (config.search.epochs, config.search.steps_per_epoch) == (9, 8)


def test_options_of_methods_come_from_recipe_config_and_learner() -> None:
    keys = {"dataset": "cifar100", "recipe": "paper", "method": "p-darts"}
    config = resolve(keys)
    assert config.build_method(config.learners[0]).dropout == (0.1, 0.2, 0.3)  # type: ignore[attr-defined]
    config = resolve(keys, ["methods.p-darts.skips=1"])
    method: Any = config.build_method(config.learners[0])
    assert (method.dropout, method.skips) == ((0.1, 0.2, 0.3), 1)
    config = resolve({"learners": [{"method": "pc-darts", "options": {"part": 1}}, {"method": "pc-darts"}]})
    assert [config.build_method(one).part for one in config.learners] == [1, 2]  # type: ignore[attr-defined]
    assert resolve({"method": "darts"}).methods == {}  # of methods that nobody has nothing is said


@pytest.mark.parametrize("method", METHODS)
def test_options_in_recipes_are_sound(method: str) -> None:
    """Configs take them without a look at the method, which would load torch."""
    for options in recipes.options_of(method):
        assert build_method(method, options).name == method


def test_second_order_steps_architectures_first_in_a_learner_alone() -> None:
    keys = {"recipe": "paper", "dataset": "cifar10", "hypergradient": "finite-difference"}
    alone, group = (resolve({**keys, "learners": k}).search for k in (1, 2))
    assert (alone.order, alone.clip_lookahead) == ("a-v-w", False)
    assert (group.order, group.clip_lookahead) == ("v-w-a", True)
    other = resolve({**keys, "learners": 1}, ["search.order=v-w-a"]).search
    assert (other.order, other.clip_lookahead) == ("v-w-a", True)
    released = resolve({**keys, "recipe": "released-code"}).search
    assert (released.order, released.clip_lookahead) == ("v-w-a", True)
    independent = resolve({**keys, "learners": 2, "lambda": 0}, ["search.order=a-v-w"]).search
    assert independent.order == "a-v-w"
    with pytest.raises(ValueError, match=r"search\.order must be v-w-a where learners teach and hypergradient is"):
        resolve({**keys, "learners": 2}, ["search.order=a-v-w"])
    with pytest.raises(ValueError, match="clip_lookahead can be false only in order a-v-w, but order is v-w-a"):
        resolve({**keys, "learners": 2}, ["search.clip_lookahead=false"])
    with pytest.raises(ValueError, match="nesterov needs momentum > 0, but got momentum=0"):
        resolve(keys, ["search.weights.nesterov=true", "search.weights.momentum=0"])


def test_later_keys_are_not_what_a_run_is_known_by() -> None:
    """Runs of versions without them are found and resumed; where they say something else than those did, they count."""
    config = resolve({"recipe": "quick"})
    search, training = config.of_search()["search"], config.of_training()["training"]
    assert "clip_lookahead" not in search
    assert "nesterov" not in search["weights"]
    assert "momentum" in search["weights"]
    assert "warmup_rate" not in training
    assert "warmup_epochs" in training
    other = resolve({"recipe": "quick"}, ["search.weights.nesterov=true", "training.warmup_rate=decayed"])
    assert other.of_search()["search"]["weights"]["nesterov"] is True
    assert other.of_training()["training"]["warmup_rate"] == "decayed"


def test_quick_is_the_default_and_made_for_short_searches() -> None:
    search = Config().search
    assert Config().recipe == "quick"
    assert (search.v_warmup, search.architecture_warmup) == (0.1, 0.75)
    assert (search.architecture.travel, search.architecture.lr) == (None, 0.01)
    small, large = resolve({}), resolve({"dataset": "cifar10"})
    assert small.training.epochs != large.training.epochs
    assert resolve({"space": "darts"}).space.channels == 4
    assert resolve({"dataset": "folder:images"}).data.size is None  # their own, up to 64 pixels
    assert resolve({"dataset": "imagenet"}).data.size == 32


def test_what_is_given_stands_above_the_recipe() -> None:
    config = resolve(
        {
            "recipe": "paper",
            "dataset": "cifar10",
            "unlabeled": "split",
            "search": {"epochs": 3, "weights": {"lr": 0.1}},
        },
        ["search.batch_size.train=7"],
    )
    assert (config.data.unlabeled, config.search.epochs, config.search.batch_size.train) == ("split", 3, 7)
    assert (config.search.weights.lr, config.search.weights.momentum) == (0.1, 0.9)
    assert config.search.batch_size.validation == 50


@pytest.mark.parametrize(("recipe", "key", "other"), [("quick", "lr", "travel"), ("paper", "travel", "lr")])
def test_who_says_how_fast_the_architecture_moves_does_not_mean_the_recipe(recipe: str, key: str, other: str) -> None:
    architecture = resolve({"recipe": recipe}, [f"search.architecture.{key}=0.5"]).search.architecture
    assert getattr(architecture, key) == 0.5
    assert getattr(architecture, other) is None
    with pytest.raises(ValueError, match="one of lr and travel must be null, but got lr=1 and travel=2"):
        resolve({"recipe": recipe}, ["search.architecture.lr=1", "search.architecture.travel=2"])


def test_a_resolved_config_is_the_same_with_its_recipe_or_another_below_it() -> None:
    config = resolve({"recipe": "paper", "dataset": "cifar10", "learners": 3})
    assert resolve(config.to_dict()) == config
    moved = resolve({**config.to_dict(), "recipe": "quick"})
    assert moved.model_copy(update={"recipe": "paper"}) == config


@pytest.mark.parametrize("name", ["papr", 3, ["paper"], None])
def test_a_recipe_that_is_not_there(name: object) -> None:
    with pytest.raises(ValueError, match="recipe must be one of quick, paper, released-code, but got"):
        resolve({"recipe": name})


@pytest.mark.parametrize(
    ("below", "above", "methods"),
    [
        ({"learners": [{"method": "gdas"}] * 2}, {"learners": 3}, ["gdas"] * 3),
        ({"learners": [{"method": "gdas"}] * 2}, {"method": "darts"}, ["darts"] * 2),
        ({"learners": [{"method": "gdas"}, {"method": "darts"}]}, {"learners": 2}, ["gdas", "darts"]),
        ({"method": "gdas"}, {"learners": 1}, ["gdas"]),
        ({"method": "gdas"}, {"learners": [{}, {"method": "fair-darts"}]}, ["darts", "fair-darts"]),
    ],
)
def test_learners_given_in_two_places(below: dict[str, Any], above: dict[str, Any], methods: list[str]) -> None:
    assert [learner.method for learner in resolve(overlaid(below, above)).learners] == methods


def test_learners_that_differ_are_not_counted() -> None:
    with pytest.raises(ValueError, match="learners=3 needs identical learners"):
        resolve({"learners": [{"method": "gdas"}, {"method": "darts"}]}, ["learners=3"])


def _stated(keys: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The keys that a recipe gives a value, with their path."""
    found: dict[str, Any] = {}
    for key, value in keys.items():
        found |= _stated(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def test_every_default_lives_in_one_place() -> None:
    """In the recipe `quick`, or in the model of the key, never in both; options of methods are as published there."""
    quick = yaml.safe_load(recipes.text("quick"))
    stated = {key for key in _stated(quick["config"]) if not key.startswith("methods.")}
    required = {key for key, field in fields_of(Config) if field.is_required() and "." in key}
    required -= {key for key in required if any(other.startswith(f"{key}.") for other in required)}
    assert stated == required
    assert len(stated) > 35
    changed = {key for variant in quick["variants"] for key in _stated(variant["config"])}
    assert changed - required == {"data.size"}  # that of the images themselves, but for the very large
