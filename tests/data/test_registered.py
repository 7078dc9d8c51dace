"""A dataset of one's own under a name: everywhere that a built-in one goes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import smallgroup.data
from smallgroup.cli import main
from smallgroup.config import resolve
from smallgroup.data import DATASETS, DataError, Dataset, OwnData, Source, examine, open_dataset, open_unlabeled
from smallgroup.data.names import recipe_variant
from smallgroup.registry import PluginError
from tests.data.makers import noise
from tests.pipeline.test_pipeline import KEYS, Captured

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def register_stripes() -> None:
    """The dataset of the page on data, as it is written there."""
    _, block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(block, {"__name__": "their_module"})


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    DATASETS._registered.clear()


class Noise(Source):
    """Noise in a folder of so many pixels."""

    name = "noise"
    takes = "SIZE"
    recipe_variant = "digits"

    def where(self) -> Path:
        return self.root / "noise"

    def open(self, size: int | None = None, bad: Any = None) -> Dataset:  # noqa: ARG002
        pixels = int(self.argument)
        labels = torch.arange(40) % 2
        return OwnData((noise(40, 1, pixels, pixels), labels)).open(size)


def test_built_in_ones_are_registered_like_others() -> None:
    assert list(DATASETS) == ["digits", "cifar10", "cifar100", "imagenet", "folder", "hf", "own"]
    for name in DATASETS:
        assert issubclass(DATASETS[name], Source)
        assert DATASETS[name].name == name
    assert DATASETS.group == "smallgroup.datasets"
    smallgroup.data.register(Noise)
    assert list(DATASETS)[-1] == "noise"


def test_it_is_opened_by_its_name_and_argument(tmp_path: Path) -> None:
    smallgroup.data.register(Noise)
    with pytest.raises(DataError, match=r"a dataset 'noise' must be a folder, but .*noise does not exist"):
        open_dataset("noise:8", tmp_path)
    (tmp_path / "noise").mkdir()
    data = open_dataset("noise:8", tmp_path)
    assert (data.name, data.size, data.channels, len(data.train)) == ("noise:8", 8, 1, 32)
    assert open_dataset("noise:8", tmp_path, size=6).size == 6
    digits = open_dataset("digits", tmp_path)
    images = open_unlabeled("noise:10", tmp_path, digits)
    assert (images.labels, images.fetch(torch.tensor([0])).shape) == (None, (1, 1, 8, 8))
    for name in ("noise", "noise:", "nois", "digits:8", "digits:"):
        with pytest.raises(DataError, match=rf"folder:PATH, hf:NAME, own:NAME, noise:SIZE, but got '{name}'"):
            open_dataset(name, tmp_path)
    (found,) = examine(tmp_path, ("noise:8",))
    assert (found.status, found.where) == ("ok", str(tmp_path / "noise"))
    assert found.sentence.startswith("32 training and 8 test images of 2 classes, 8 x 8 x 1")


def test_recipes_treat_it_as_a_folder_or_as_it_says() -> None:
    register_stripes()
    smallgroup.data.register(Noise)
    assert [recipe_variant(name) for name in ("stripes", "noise:8", "hf:a/b", "cifar10", "folder:x", "nothing")] == [
        "folder",
        "digits",
        "folder",
        "cifar10",
        "folder",
        "nothing",
    ]
    for name, like in (("stripes", "folder:x"), ("noise:8", "digits")):
        for recipe in ("quick", "paper"):
            own = resolve({"recipe": recipe, "dataset": name}).to_dict()
            other = resolve({"recipe": recipe, "dataset": like}).to_dict()
            assert own == {**other, "data": {**other["data"], "dataset": name}}


def test_what_a_source_gives_is_checked(tmp_path: Path) -> None:
    class Nothing(Source):
        name = "nothing"

        def open(self, size: int | None = None, bad: Any = None) -> Any:  # noqa: ARG002
            return [1, 2, 3]

    class OfOneSize(Source):
        name = "of-one-size"

        def open(self, size: int | None = None, bad: Any = None) -> Any:  # noqa: ARG002
            return open_dataset("digits", tmp_path)

    smallgroup.data.register(Nothing)
    smallgroup.data.register(OfOneSize)
    with pytest.raises(DataError, match=r"'nothing' must open as a smallgroup.data.Dataset, but it opens as list"):
        open_dataset("nothing", tmp_path)
    with pytest.raises(DataError, match=r"must open in the size that is asked for, 16, but it has 8"):
        open_dataset("of-one-size", tmp_path, size=16)
    assert open_dataset("of-one-size", tmp_path).name == "of-one-size"


def test_names_that_are_taken_and_classes_that_are_no_source() -> None:
    class Taken(Noise):
        name = "cifar10"

    with pytest.raises(PluginError, match=r"'cifar10' is the name of smallgroup.data.built_in:Cifar10"):
        smallgroup.data.register(Taken)
    with pytest.raises(PluginError, match=r"must be a subclass of smallgroup.data.source.Source"):
        smallgroup.data.register(type("Other", (), {"name": "other"}))


def test_commands_take_it(tmp_path: Path, capsys: Captured) -> None:
    """Search, training, report and lists; and without it a line says what is missing."""
    register_stripes()
    folder, page = tmp_path / "run", str(tmp_path / "page.html")
    (tmp_path / "keys.yaml").write_text(yaml.safe_dump({key: value for key, value in KEYS.items() if key != "data"}))
    keys = ["--config", str(tmp_path / "keys.yaml"), "--set", "search.answer=retained"]
    data = ["--dataset", "stripes", "--unlabeled", "stripes"]
    assert main(["search", *data, *keys, "--out", str(folder)]) == 0
    assert main(["train", str(folder), *keys]) == 0
    for place in (folder, folder / "training"):
        assert json.loads((place / "result.json").read_text())["dataset"] == "stripes"
    assert yaml.safe_load((folder / "config.yaml").read_text())["data"]["unlabeled"] == "stripes"
    capsys.readouterr()
    for line in (["show", str(folder)], ["report", str(folder), "--out", page], ["describe", str(folder)]):
        assert main(line) == 0
    assert "cannot be used" not in capsys.readouterr().out
    assert main(["list", "datasets"]) == 0
    assert "stripes      Stripes in three directions, drawn when they are opened." in capsys.readouterr().out
    assert main(["doctor", "--json", "--data-root", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plugins"] == {"dataset stripes": "their_module:Stripes"}
    (found,) = [finding for finding in told["findings"] if finding["what"] == "stripes"]
    assert found["sentence"].startswith("240 training and 60 test images of 3 classes, 16 x 16 x 1")
    DATASETS._registered.clear()
    for line in (["search", "--out", str(folder), "--resume"], ["train", str(folder)]):
        assert main(line) == 2
        assert "needs dataset 'stripes', which is not registered here" in capsys.readouterr().err
    assert main(["show", str(folder)]) == 0
    assert "needs dataset 'stripes'" in capsys.readouterr().out
