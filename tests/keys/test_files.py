"""Files of keys, and values as texts."""

from pathlib import Path

import pytest

from smallgroup.config import Config, NotRegisteredError, load, load_own, resolve


@pytest.mark.parametrize(
    "text",
    [
        "a: [1",
        "- 1",
        "3: 4",
        "!!python/object/apply:os.system [echo]",
        "\x00",
        "[" * 10_000,
        "seed: " + "[" * 25 + "]" * 25,
        "seed: !!timestamp x",
        "seed: !!bool x",
    ],
)
def test_files_that_are_no_config_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match="a config must be"):
        load(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("search:\n  epochs: 1\n  radius: 3\n  epochs: 2\n", "line 4: a key must be given once, but 'epochs' is given"),
        ("lambda: 1\nseed: " + "9" * 5_000, "line 2: a whole number must have at most 100 digits, but got '999"),
    ],
)
def test_rules_of_ours_are_told_by_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    (path := tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=f"{path}, {said}"):
        load(path)


@pytest.mark.parametrize(
    "text",
    [
        "learners: [{method: sharp}]",
        "learners: [{method: darts}]\nmethods: {sharp: {temperature: 0.3}}",
        "space: {name: sharp}",
        "learners: [{method: darts, space: {name: sharp}}]",
        "data: {dataset: sharp}",
        "data: {unlabeled: 'sharp:here'}",
    ],
)
def test_what_a_run_needs_of_a_plugin_is_said_and_not_imported(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit('imported')")
    (path := tmp_path / "config.yaml").write_text(f"{text}\nplugins: [{tmp_path}/mine.py]\n")
    with pytest.raises(NotRegisteredError, match=r"'sharp', which is not registered here; .* --plugin \S*mine\.py$"):
        load_own(path)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("# nothing\n")
    assert resolve(load(tmp_path / "config.yaml")) == Config()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("seed=no", "seed must be a whole number, but got 'no'"),
        ("seed=1:30", "seed must be a whole number, but got '1:30'"),
        ("seed=1_000", "seed must be a whole number, but got '1_000'"),
        ("seed=true", "seed must be a whole number, but got true"),
        ("search.lambda=1_0.5", r"search\.lambda must be a number, but got '1_0\.5'"),
        ("search.lambda=false", r"search\.lambda must be a number, but got false"),
    ],
)
def test_a_word_is_no_number(tmp_path: Path, change: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        resolve({}, [change])
    (path := tmp_path / "config.yaml").write_text(change.replace("search.", "").replace("=", ": "))
    with pytest.raises(ValueError, match=said):
        resolve(load(path))


def test_a_zero_in_front_of_a_number_says_nothing() -> None:
    assert resolve({}, ["seed=010"]).seed == 10
