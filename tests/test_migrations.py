"""Configs of earlier versions keep their meaning and their identity."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from smallgroup import recipes
from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.migrations import EARLIER, LATER, QUICK, RENAMED, as_before, migrated
from smallgroup.runner.identity import check_identity
from smallgroup.study import open_study, opened, planned


def earlier(**given: Any) -> dict[str, Any]:
    """The keys of a config as a version wrote them that had none of the later ones."""
    plain = resolve(given).to_dict()
    recipe = recipes.keys(plain["recipe"], {"dataset": "digits", "space": "", "method": "", "learners": "group"})
    quick = QUICK["training"]["network"] if plain["recipe"] == "quick" else {}
    network = {**EARLIER["training"]["network"], **quick, **recipe["training"]["network"]}
    plain["training"]["network"] = {**network, **plain["training"]["network"]}
    plain["space"] = {**EARLIER["space"], **plain["space"]}
    for learner in plain["learners"]:
        learner["space"] = learner["space"] and {**EARLIER["space"], **learner["space"]}
    for section in (plain["space"], *(one["space"] or {} for one in plain["learners"])):
        section.pop("derive", None)
    del plain["plugins"]
    plain["data"]["labelled_fraction"] = plain["data"].pop("labeled_fraction")
    plain["search"]["labellers"] = plain["search"].pop("labelers")
    for section in (plain["data"]["augmentation"], plain["training"]["augmentation"]):
        section["colour_jitter"] = section.pop("color_jitter")
    del plain["data"]["skip_bad_images"], plain["search"]["clip_lookahead"], plain["search"]["weights"]["nesterov"]
    del plain["search"]["image_size"], plain["search"]["answer"], plain["playoff"]
    for key in ("lambda_ramp", "label_temperature", "label_confidence", "cost"):
        del plain["search"][key]
    for key in ("warmup_rate", "optimizer", "average", "least_steps", "validation", "batch_norm"):
        del plain["training"][key]
    del plain["training"]["network"]["halvings"]
    return plain


IDENTITIES = {
    ("quick", "nas-bench-201", "retained"): ("7996c7cdbd710531", "8b014fcbb9d2d529"),
    ("quick", "darts", "play-off"): ("161f2112704ed295", "8b014fcbb9d2d529"),
    ("paper", "nas-bench-201", "play-off"): ("b1d574e24a51d912", "0e92fa78469ba7c2"),
    ("paper", "darts", "retained"): ("98843435b1ae4ebd", "634a1c5f9e17e677"),
    ("released-code", "nas-bench-201", "retained"): ("4967b0aed50b5144", "f32470534bea2974"),
    ("released-code", "darts", "play-off"): ("61c3dd99f336fd88", "6178e1d5cf738261"),
}
"""Of a search and a training by recipe, space and answer, by the version that wrote the keys of every space."""


@pytest.mark.parametrize("case", IDENTITIES, ids="-".join)
def test_runs_of_the_version_with_the_keys_of_every_space_are_found_again(case: tuple[str, str, str]) -> None:
    recipe, space, answer = case
    keys = {"recipe": recipe, "space": space, "dataset": "cifar10", "method": "darts", "learners": 2}
    config = resolve({**keys, "search": {"answer": answer}})
    found = (config.of_search(), config.of_training())
    assert (
        tuple(hashlib.sha256(json.dumps(one, sort_keys=True).encode()).hexdigest()[:16] for one in found)
        == (IDENTITIES[case])
    )


def test_a_run_of_an_earlier_version_is_read_as_what_it_did(tmp_path: Path) -> None:
    """It chose among all operations, `none` included, also in a learner's own space; today's default does not."""
    own = {"method": "darts", "space": {"name": "nas-bench-201", "channels": 4}}
    (tmp_path / CONFIG).write_text(yaml.safe_dump(earlier(learners=[{"method": "darts"}, own])))
    read = resolve(load_own(tmp_path / CONFIG))
    assert read.space.derive == "benchmark"
    assert read.learners[1].space is not None
    assert read.learners[1].space.derive == "benchmark"
    assert read.search.clip_lookahead
    assert read.search.answer == "retained"
    assert Config().space.derive == "without-none"


def test_a_run_is_known_by_what_it_did_before_there_were_later_keys() -> None:
    """Identities, and so the hashes of studies, are those of earlier versions where nothing differs."""
    old = earlier(space={"name": "nas-bench-201"})
    known = {**{key: value for key, value in old.items() if key != "training"}}
    now = resolve(migrated(old)).of_search()
    assert {**now, "run": None} == {**known, "run": None}
    assert resolve({}).of_search()["space"]["derive"] == "without-none"
    assert "derive" not in resolve({"space": "darts"}).of_search()["space"]
    assert "answer" not in resolve({"search": {"answer": "retained"}}).of_search()["search"]
    assert resolve({"search": {"answer": "consensus"}}).of_search()["search"]["answer"] == "consensus"


@pytest.mark.parametrize("space", ["darts", "nas-bench-201"])
@pytest.mark.parametrize("recipe", ["quick", "paper"])
def test_a_run_is_the_same_when_its_file_is_read_again(space: str, recipe: str, tmp_path: Path) -> None:
    """What the file does not have because it is another space's is not filled in."""
    config = resolve({"space": space, "recipe": recipe}, ["search.answer=play-off"])
    (tmp_path / CONFIG).write_text(config.to_yaml())
    read = resolve(load_own(tmp_path / CONFIG))
    assert read == config
    assert (read.of_search(), read.of_training()) == (config.of_search(), config.of_training())


@pytest.mark.parametrize("damaged", [{}, {"space": 3, "learners": "two"}, {"learners": [None, 4]}, {"search": []}])
def test_damaged_files_are_left_to_the_reader(damaged: dict[str, Any]) -> None:
    assert migrated(damaged) == damaged
    assert as_before(damaged, {}) == damaged


def test_later_keys_exist() -> None:
    """A key that is renamed must be renamed here too."""
    plain = Config().to_dict()

    def check(values: dict[str, Any], section: dict[str, Any]) -> None:
        for key, value in values.items():
            assert key in section
            if isinstance(value, dict):
                check(value, section[key])

    check(LATER, plain)


OLD_NAMES = [
    ("data", "labelled_fraction", "labeled_fraction", 0.3),
    ("data.augmentation", "colour_jitter", "color_jitter", True),
    ("search", "labellers", "labelers", "somewhere"),
    ("training.augmentation", "colour_jitter", "color_jitter", True),
    ("training.group.weak", "colour_jitter", "color_jitter", True),
    ("training.group.strong", "colour_jitter", "color_jitter", True),
]


def nested(path: str, value: object) -> dict[str, Any]:
    """A config with a value at a path of keys."""
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def at(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = config[name]
    return config


def test_every_renamed_key_is_tested() -> None:
    assert {(path, *pair) for path, names in RENAMED.items() for pair in names.items()} == {x[:3] for x in OLD_NAMES}


@pytest.mark.parametrize(("path", "before", "now", "value"), OLD_NAMES)
def test_a_key_of_an_earlier_version_is_renamed_on_read_and_known_by_its_old_name(
    path: str, before: str, now: str, value: object, tmp_path: Path
) -> None:
    given = resolve(nested(f"{path}.{now}", value))
    plain = given.to_dict()
    section = at(plain, path)
    section[before] = section.pop(now)
    (tmp_path / CONFIG).write_text(yaml.safe_dump(plain))
    read = resolve(load_own(tmp_path / CONFIG))
    assert read == given
    known = {**read.of_search(), **read.of_training()}
    assert at(known, path)[before] == ("given" if before == "labellers" else value)
    assert now not in at(known, path)


def test_a_study_is_known_by_the_names_that_its_rows_had() -> None:
    assert planned(*opened("table-5")).hash == "248a8bb6f4899532"  # computed by the version with `labellers`


def test_a_difference_of_a_renamed_key_is_told_by_its_name_of_today() -> None:
    one, other = (resolve({"data": {"labeled_fraction": share}}).of_search() for share in (0.3, 0.4))
    with pytest.raises(ValueError, match=r"but data\.labeled_fraction was 0\.4 and is 0\.3$"):
        check_identity(one, other)


@pytest.mark.parametrize(("path", "before", "now", "value"), OLD_NAMES)
def test_a_new_config_with_the_old_name_is_told_the_new_one(path: str, before: str, now: str, value: object) -> None:
    told = rf"no key '{path}\.{before}'; .* {path}\.{now}$"
    with pytest.raises(ValueError, match=told):
        resolve(nested(f"{path}.{before}", value))
    with pytest.raises(ValueError, match=told):
        resolve({}, [f"{path}.{before}={json.dumps(value)}"])


def test_a_study_with_the_old_name_is_told_the_new_one(tmp_path: Path) -> None:
    rows = [{"name": "separate", "labellers": {}}]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"title": "mine", "rows": rows}))
    with pytest.raises(ValueError, match=r"a study has no key 'rows\.0\.labellers'; the nearest is labelers$"):
        open_study(str(tmp_path / "mine.yaml"))
