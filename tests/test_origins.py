"""Where the values of a config come from."""

import json

import pytest

from smallgroup.cli import main
from smallgroup.config import help_of_keys
from smallgroup.origins import key_values


def origins(*changes: str, **given: object) -> dict[str, tuple[object, str]]:
    return {one.key: (one.value, one.origin) for one in key_values(given, changes)}


def test_you_a_recipe_a_variant_the_method_and_defaults() -> None:
    found = origins("search.epochs=3", recipe="paper", dataset="cifar10", method="pc-darts")
    of_other_spaces = {key for key in help_of_keys() if key not in found}
    assert {"space.cells_per_stage", "training.network.reduction"} <= of_other_spaces
    assert all(key.startswith("space.") or ".network." in key for key in of_other_spaces)
    assert found["search.epochs"] == (3, "you")
    assert found["data.dataset"] == ("cifar10", "you")
    assert found["data.unlabeled"] == ("cifar100", "recipe paper, variant for dataset cifar10")
    assert found["search.weights.min_lr"] == (0.0, "recipe paper, variant for method pc-darts")
    assert found["search.lambda"] == (1.0, "recipe paper")
    assert found["search.architecture_warmup"] == (0.3, "method pc-darts")
    assert found["methods.pc-darts.part"] == (4, "method pc-darts")
    assert found["run.on_nonfinite"] == ("stop", "default")
    assert (found["space.stem"], found["playoff.network.cells"]) == (("auto", "space darts"), (5, "space darts"))
    assert found["training.group.lambda"] == (1.0, "default")  # of a section that is null


def test_options_of_methods_that_no_learner_has_are_those_they_would_get() -> None:
    assert origins()["methods.pc-darts.part"] == origins(method="pc-darts")["methods.pc-darts.part"]
    assert origins()["methods.pc-darts.part"] == (2, "recipe quick")
    assert origins()["methods.fair-darts.zero_one_weight"] == (10.0, "method fair-darts")


def test_what_null_stands_for_depends_on_the_other_ways_to_say_it() -> None:
    found = origins("search.architecture.travel=7.5")
    assert found["search.architecture.travel"] == (7.5, "you")
    assert found["search.architecture.lr"][0] is None  # it follows from the travel
    assert origins()["search.architecture.lr"] == (0.01, "recipe quick")
    assert origins()["search.architecture.betas"] == ((0.5, 0.999), "method darts")
    assert origins(method="pc-darts")["methods.pc-darts.part"] == (2, "recipe quick")


def test_the_value_that_a_user_repeats_is_the_users() -> None:
    assert origins()["search.epochs"] == (6, "recipe quick")
    assert origins("search.epochs=6")["search.epochs"] == (6, "you")


def test_the_list_takes_what_a_run_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "keys", "--recipe", "paper", "--set", "lambda=2", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["search.lambda"]["value"], rows["search.lambda"]["from"]) == (2, "you")
    assert rows["training.epochs"]["from"] == "recipe paper"
    assert rows["training.epochs"]["about"]
    assert main(["list", "keys", "--method", "gdas"]) == 0
    assert "search.lambda " in capsys.readouterr().out
    assert main(["list", "methods", "--recipe", "paper"]) == 2
    assert "options of a run can only be used with `list keys`, but got `list methods`" in capsys.readouterr().err
