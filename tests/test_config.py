from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from smallgroup.config import Config, keys_of, load, resolve
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import definition_of
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.darts.config import DartsConfig


def test_common_keys_may_stand_at_the_top() -> None:
    short = Config(dataset="cifar10", unlabeled="cifar100", method="gdas", space="darts", learners=3, lam=0.5)
    assert (short.data.dataset, short.data.unlabeled) == ("cifar10", "cifar100")
    assert [learner.method for learner in short.learners] == ["gdas"] * 3
    assert short.space.name == "darts"
    assert short.lam == short.search.lam == 0.5
    assert resolve({"lambda": 2, "hypergradient": "exact"}).search.model_dump(include={"lam", "hypergradient"}) == {
        "lam": 2.0,
        "hypergradient": "exact",
    }


def test_learners_may_differ() -> None:
    config = resolve(
        {
            "learners": [
                {"method": "darts"},
                {"method": "gdas", "options": {"last_temperature": 1.0}, "space": {"channels": 4}},
            ]
        }
    )
    method = config.build_method(config.learners[1])
    assert method.last_temperature == 1.0  # type: ignore[attr-defined]
    assert config.learners[1].space is not None
    assert config.build_method(config.learners[1]) is not method


def test_a_config_is_written_and_read_back(tmp_path: Path) -> None:
    config = resolve({"dataset": "cifar10", "learners": 3, "lambda": 0.1, "seed": 5}, ["search.epochs=3"])
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    assert "lambda: 0.1" in path.read_text()
    assert resolve(load(path)) == config
    assert resolve(config.to_dict()) == config


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("search.epochs=7", 7),
        ("search.weights.lr=0.1", 0.1),
        ("data.augmentation.flip=false", False),
        ("search.architecture.betas=[0.9, 0.99]", (0.9, 0.99)),
        ("lambda=3", 3.0),
    ],
)
def test_keys_are_set_by_their_path(change: str, value: object) -> None:
    config: Any = resolve({}, [change])
    path = change.partition("=")[0]
    for part in ("search.lam" if path == "lambda" else path).split("."):
        config = getattr(config, part)
    assert config == value


@pytest.mark.parametrize(
    ("given", "changes", "message"),
    [
        ({}, ["search.epohcs=3"], "no key 'search.epohcs'; the nearest is search.epochs"),
        ({}, ["nothing"], "--set takes key=value, but got 'nothing'"),
        ({}, ["search.epochs=[1"], "a value must be YAML"),
        ({}, ["search.epochs=0"], "search.epochs: Input should be greater than or equal to 1, but got '0'"),
        ({}, ["search.hypergradient=best"], "search.hypergradient: Input should be 'first-order'"),
        ({"serach": {"epochs": 1}}, [], "no key 'serach'; the nearest is search"),
        ({"search": {"epoch": 1}}, [], "no key 'search.epoch'; the nearest is search.epochs"),
        (
            {"search": 3},
            [],
            "search must be a section of keys .epochs.*, but got '3'; set each, such as search",
        ),
        (
            {},
            ["search.batch_size=64"],
            "search.batch_size must be a section of keys .train, unlabeled, validation., but got '64'; set each, "
            "such as search.batch_size.train",
        ),
        ({"learners": "two"}, [], "learners must be a number from 1 to 64 or a list of learners, but got 'two'"),
        (
            {"learners": ["darts"]},
            [],
            "learners.0 must be a section of keys .method.*, but got 'darts'; write {m",
        ),
        ({"method": "PC-DARTS"}, [], "but got 'PC-DARTS'; did you mean pc-darts"),
        ({"space": "NAS_Bench_201"}, [], "but got 'NAS_Bench_201'; did you mean nas-bench-201"),
        ({"recipe": "Paper"}, [], "but got 'Paper'; did you mean paper"),
        ({"dataset": "CIFAR-10"}, [], "but got 'CIFAR-10'; did you mean cifar10"),
        ({"unlabeled": "noimg"}, [], "split, train, but got 'noimg'; a folder of images is written folder:noimg"),
        ({}, ["methods.PC-Darts.part=2"], "no key 'methods.PC-Darts.part'; the nearest is methods.pc-darts"),
        ({}, ["search.EPOCHS=2"], "no key 'search.EPOCHS'; the nearest is search.epochs"),
        ({"dataset": "mnist"}, [], "data must be one of digits, cifar10.*but got 'mnist'"),
        (
            {"method": "magic"},
            [],
            "method must be one of .*darts, darts-minus, .*, but got 'magic'",
        ),
        ({"learners": 0}, [], "1 <= learners <= 64 must hold, but got learners=0"),
        ({"learners": []}, [], "learners: Tuple should have at least 1 item"),
        (
            {"learners": [{"method": "gdas", "options": {"speed": 3}}]},
            [],
            "an option of gdas must be one of: first_temperature, last_temperature; but got 'speed'",
        ),
        (
            {"learners": [{"method": "gdas", "options": {"first_temperature": "hot"}}]},
            [],
            "must be a number, but got 'hot'",
        ),
        ({"learners": [{"metod": "gdas"}]}, [], r"no key 'learners.0.metod'; the nearest is learners.method"),
        ({}, ["metod=gdas"], "no key 'metod'; the nearest is method"),
        ({}, ["datasett=digits"], "no key 'datasett'; the nearest is dataset"),
        ({"search": {"weights": {"lr": float("inf")}}}, [], "search.weights.lr: Input should be a finite number"),
        ({"search": 5}, ["search.epochs=2"], "search must be a section of keys, but got '5'"),
        ({"learners": [{}], "method": "gdas"}, [], "learners is a list in which each names its own"),
        (
            {"lambda": 1, "search": {"lambda": 2}},
            [],
            "lambda must be given once, but it is also given as search.lambda",
        ),
        ({"dataset": "digits", "data": 3}, [], "data must be a section of keys, but got '3'"),
        ({"seed": -1}, [], "seed: Input should be greater than or equal to 0, but got '-1'"),
        ({"seed": "x"}, [], "seed must be a whole number, but got .x."),
        ({}, ["run.threads=1025"], "run.threads: Input should be less than or equal to 1024, but got '1025'"),
        ({}, ["search={epochs: 1, epochs: 2}"], "search: a key must be given once, but 'epochs' is given twice"),
        ({}, ["seed=0o" + "1" * 20_000], "seed: a whole number must have at most 100 digits, but got '0o1111"),
        ({}, ["seed=0x" + "f" * 20_000], "seed: a whole number must have at most 100 digits"),
        ({}, ["seed=1" + ":1" * 20_000], "seed must be a whole number, but got .1:1:1"),
        ({}, ["training.lr=" + "1:" * 200 + "1.5"], "training.lr must be a number, but got .1:1:"),
        ({}, ["seed=" + "1" * 20_000], "seed: a whole number must have at most 100 digits"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(given: dict[str, Any], changes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        resolve(given, changes)
    assert "\n" not in str(error.value)
    assert not isinstance(error.value, ValidationError)


@pytest.mark.parametrize("key", ["recipe", "method", "space", "dataset", "seed", "lambda", "learners", "colour"])
def test_what_is_wrong_is_said_in_a_sentence_of_moderate_length(key: str) -> None:
    with pytest.raises(ValueError, match=r"^.{1,600}$"):
        resolve({key: "x" * 5_000})


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Config().seed = 3


OF_ANOTHER_SPACE: Any = object()


def test_every_key_can_be_set() -> None:
    """What a config says of itself, set again key by key, is the same config."""
    config = Config()
    plain = config.to_dict()
    for key in keys_of(Config):
        value: Any = plain
        for part in key.split("."):
            value = OF_ANOTHER_SPACE if value is None else value.get(part, OF_ANOTHER_SPACE)
            if value is OF_ANOTHER_SPACE:  # or of a section that is null
                break
        if value is not OF_ANOTHER_SPACE:
            text = yaml.safe_dump(value, default_flow_style=True).strip().removesuffix("...").strip()
            assert resolve({}, [f"{key}={text}"]) == config


def test_keys_of_another_space_are_kept_and_checked() -> None:
    """A file may be for several spaces; what none of them takes is refused, by the name of the key."""
    config = resolve({"space": "nas-bench-201"}, ["space.cells=5", "training.network.stem=small"])
    assert (config.space.cells, config.training.network.stem) == (5, "small")
    assert resolve(config.to_dict()) == config
    moved = resolve({**config.to_dict(), "space": {**config.to_dict()["space"], "name": "darts"}})
    assert moved.space.build(ImageSpec(10, 1, 8)) == DartsSpace(8, 5, "small", ImageSpec(10, 1, 8))
    with pytest.raises(ValueError, match=r"^space.cells: Input should be greater than or equal to 3, but got '2'$"):
        resolve({"space": "nas-bench-201"}, ["space.cells=2"])
    with pytest.raises(ValueError, match=r"^a config has no key 'training.network.cels'; the nearest is .*cells"):
        Config(training={"network": {"cels": 2}})
    with pytest.raises(ValueError, match=r"^a config has no key 'space.cels'; the nearest is space.cells"):
        Config(space={"name": "darts", "cels": 2})


def test_a_config_has_the_keys_of_its_own_space_alone() -> None:
    """All of them, so that later defaults do not change what a run was."""
    for name, own in {"darts": {"cells", "stem"}, "nas-bench-201": {"cells_per_stage", "derive"}}.items():
        for recipe in ("quick", "paper"):
            plain = resolve({"space": name, "recipe": recipe}).to_dict()
            assert plain["space"].keys() == {"name", "channels"} | own
            for section in ("training", "playoff"):
                network = definition_of(name).network_config
                assert plain[section]["network"].keys() == network.model_fields.keys()


def test_a_learners_own_size_is_one_of_the_groups_space() -> None:
    config = resolve({"space": "darts", "learners": [{}, {"space": {"channels": 4}}]})
    assert config.learners[1].space == DartsConfig(name="darts", channels=4)


def test_what_a_learners_own_space_does_not_say_comes_from_the_recipe() -> None:
    for recipe, size in (("quick", (4, 3)), ("paper", (16, 8))):
        learners = [{}, {"space": {"name": "darts"}}]
        space = resolve({"recipe": recipe, "space": "nas-bench-201", "learners": learners}).learners[1].space
        assert space is not None
        assert (space.channels, space.cells) == size


def test_a_config_in_python_is_refused_in_the_same_sentence() -> None:
    with pytest.raises(ValueError, match=r"^a config has no key 'datset'; the nearest is dataset$"):
        Config(datset="digits")
    with pytest.raises(ValueError, match=r"^search.epochs: Input should be greater than or equal to 1, but got '0'$"):
        Config(search={"epochs": 0})


def test_lambda_may_be_written_as_in_python() -> None:
    assert resolve({}, ["search.lam=0.25"]) == resolve({"search": {"lam": 0.25}}) == Config(lam=0.25)
