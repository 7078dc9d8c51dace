"""Every number of a config, a study or a method's options must be a number, and every switch true or false."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from smallgroup.config import Config, fields_of, load, resolve
from smallgroup.keys.values import value_of
from smallgroup.methods import METHODS, Method
from smallgroup.methods.config import build_method, help_of_options, method_options
from smallgroup.origins import key_values
from smallgroup.runner.saved import Saved
from smallgroup.runtime.plain_yaml import dumped
from smallgroup.runtime.section import Section
from smallgroup.study.file import nested, parsed


def is_made_of(field: FieldInfo, *names: str) -> bool:
    return bool(set(re.findall(r"\w+", str(field.annotation))) & set(names))


FIELDS = dict(fields_of(Config))
NUMBERS = sorted(key for key, field in FIELDS.items() if is_made_of(field, "int", "float"))
SWITCHES = sorted(key for key, field in FIELDS.items() if is_made_of(field, "bool"))
STUDY = {
    "title": "A study",
    "columns": ["validation_error"],
    "primary": "validation_error",
    "rows": [{"name": "a"}, {"name": "b"}],
}


def check_refused(key: str, said: str, given: dict[str, str], in_python: dict[Any, str], folder: Path) -> None:
    """A value must be refused in `--set`, in a file and in Python, by a sentence that ends with what was found."""
    for text, got in given.items():
        with pytest.raises(ValueError, match=f"^{key} {said}.*, but got {got}$"):
            resolve({}, [f"{key}={text}"])
        (path := folder / "config.yaml").write_text(dumped(nested({key: "VALUE"})).replace("VALUE", text))
        with pytest.raises(ValueError, match=f"^{key} {said}.*, but got {got}$"):
            resolve(load(path))
    for value, got in in_python.items():
        with pytest.raises(ValueError, match=f"^{key} {said}.*, but got {got}$"):
            Config(**nested({key: value}))


@pytest.mark.parametrize("key", NUMBERS)
def test_texts_and_switches_are_no_numbers(tmp_path: Path, key: str) -> None:
    check_refused(key, "must be a (whole )?number", {"1_0": "'1_0'"}, {True: "true", "10": "'10'"}, tmp_path)


@pytest.mark.parametrize("key", SWITCHES)
def test_texts_and_numbers_are_no_switches(tmp_path: Path, key: str) -> None:
    check_refused(key, "must be true or false", {"no": "'no'"}, {0: "0"}, tmp_path)


def test_the_keys_are_all_there() -> None:
    assert {"seed", "search.lambda", "space.cells", "training.network.halvings", "run.threads"} <= set(NUMBERS)
    assert len(NUMBERS) > 70
    assert {"search.weights.nesterov", "data.augmentation.flip"} <= set(SWITCHES)
    # No other base, unless it is strict: its numbers would take texts and switches again.
    ours = [one for one in BaseModel.__subclasses__() if one.__module__.startswith("smallgroup.")]
    own = {one for one in ours if not one.model_config.get("strict")}
    assert own == {Section, Saved}


def test_a_whole_number_may_be_written_as_a_float() -> None:
    assert resolve({}, ["search.epochs=1e1"]).search.epochs == 10
    assert resolve({}, ["training.network.halvings=auto"]).training.network.halvings == "auto"


TAKEN = r"(a list, each )?(a number|a whole number|true or false|one of [a-z, ]+)"


@pytest.mark.parametrize("name", METHODS.built_in)
def test_every_option_of_a_method_has_help(name: str) -> None:
    """A sentence of its own, then what it takes, and the published value as it is written in a file."""
    for option, line in help_of_options(name).items():
        found = re.fullmatch(rf"([A-Z\d]\S* \S.*)\. Takes {TAKEN}, by default (.+)\.", line)
        assert found, (option, line)
        value = value_of(option, found[4])
        assert build_method(name, {option: value}) == build_method(name, {})
    assert help_of_options(name).keys() == method_options(name).keys()


@dataclass
class Mine(Method):
    """One of a plugin."""

    name: ClassVar[str] = "mine"
    least: float = 0.5
    """How much,
    at least."""
    several: list[int] = field(default_factory=lambda: [1, 2])
    """How many."""
    plain: bool = True


def test_options_of_plugins_have_the_help_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._registered, "mine", Mine)
    assert help_of_options("mine") == {
        "least": "How much, at least. Takes a number, by default 0.5.",
        "several": "How many. Takes list, by default [1, 2].",
        "plain": "Takes true or false, by default true.",
    }
    values = {one.key: (one.value, one.origin, one.help) for one in key_values({})}
    assert values["methods.mine.several"] == ([1, 2], "method mine", "How many. Takes list, by default [1, 2].")
    assert values["methods.mine.least"][0] == 0.5


def test_options_of_methods() -> None:
    tried = 0
    for name, _ in METHODS.usable():
        for option, kind in method_options(name).items():
            several = "tuple" in str(kind)
            for value in ("1_0", True) if set(re.findall(r"\w+", str(kind))) & {"int", "float"} else (1, "no"):
                if kind is bool or value in ("1_0", True):
                    tried += 1
                    with pytest.raises(ValueError, match=f"^option {option} of {name} must be .*, but got"):
                        build_method(name, {option: [value] if several else value})
    assert tried > 20


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"retrainings": "1_0"}, "retrainings must be a whole number, but got '1_0'"),
        ({"retrainings": True}, "retrainings must be a whole number, but got true"),
        ({"seeds": ["1_0", 2]}, "seeds must be a whole number, but got '1_0'"),
        ({"seeds": [True, 2]}, "seeds must be a whole number, but got true"),
        ({"seeds": "1_0"}, "seeds: seeds must be like 1-5 or 1,4,7, but got '1_0'"),
        ({"version": True}, "version must be a whole number, but got true"),
        ({"rows": [{"name": "a", "baseline": {"kind": "random", "lookups": "1_0"}}]}, "lookups must be a whole number"),
        ({"claims": [{"says": "s", "row": "a", "than": ["b"], "margin": True}]}, "margin must be a number, but got tr"),
    ],
)
def test_numbers_of_a_study(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parsed({**STUDY, **keys})


def test_numbers_in_the_grid_of_a_study() -> None:
    study = parsed({**STUDY, "grid": {"search.epochs": ["1_0"]}})
    with pytest.raises(ValueError, match=r"search\.epochs must be a whole number, but got '1_0'"):
        resolve(nested({"search.epochs": study.grid["search.epochs"][0]}))
