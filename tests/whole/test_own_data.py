"""Runs on data of a Python program: what their folders say, how they are resumed, and what commands do with them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import smallgroup
from smallgroup.api import on_data
from smallgroup.cli import main
from smallgroup.data import OwnData
from smallgroup.runner import Watcher
from smallgroup.runtime import stream
from tests.pipeline.test_pipeline import KEYS, Captured

CONFIG = {key: value for key, value in KEYS.items() if key != "data"}
CONFIG["search"] = {**KEYS["search"], "answer": "retained", "steps_per_epoch": 6}


def halves(key: str = "halves", **more: Any) -> OwnData:
    """Gray images of 8x8 pixels whose left, right or upper half is bright."""
    labels = torch.arange(90) % 3
    images = torch.rand(90, 8, 8, generator=stream(key)) / 2
    for label, place in enumerate(((..., slice(4)), (..., slice(4, 8)), (..., slice(4), slice(None)))):
        half = torch.zeros(8, 8)
        half[place] = 0.5
        images[labels == label] += half
    return OwnData((images, labels), classes=["left", "right", "top"], name="halves", **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search and the training of what it found, on images of one's own and unlabeled ones."""
    folder = tmp_path_factory.mktemp("own") / "run"
    data = halves(unlabeled=np.zeros((20, 12, 10, 3), np.uint8))
    smallgroup.search(CONFIG, data=data, out=folder, progress=False)
    smallgroup.train(folder, data=data, out=folder / "training", progress=False)
    return folder


def test_the_folder_says_what_data_they_were(folder: Path) -> None:
    data = halves()
    for place in (folder, folder / "training"):
        config = yaml.safe_load((place / "config.yaml").read_text())
        assert config["data"]["dataset"] == data.reference == f"own:halves@{data.digest}"
        assert config["data"]["unlabeled"].startswith("own:halves@")
        assert config["data"]["unlabeled"] != data.reference
        assert json.loads((place / "result.json").read_text())["dataset"] == data.reference
    facts = json.loads((folder / "facts.json").read_text())
    assert facts["classes"] == ["left", "right", "top"]
    assert facts["images"] == {"train": 36, "validation": 36, "unlabeled": 20, "measured": 36}
    assert "images: 8x8, the size of the images; gray: 1 channel" in facts["notes"]


def test_recipes_say_of_them_what_they_say_of_folders() -> None:
    data = halves()
    for recipe in ("quick", "paper"):
        given = {"recipe": recipe, "learners": 2}
        keys = on_data(given, data)
        assert isinstance(keys, Mapping)
        own = smallgroup.Config(**keys).to_dict()
        folder = smallgroup.Config(**given, dataset="folder:x").to_dict()
        assert own == {**folder, "data": {**folder["data"], "dataset": data.reference}}
        assert on_data(smallgroup.Config(**given), data).to_dict() == own  # type: ignore[union-attr]
    made = on_data(smallgroup.Config(lam=0.7, seed=3, search={"epochs": 4}, space="darts", method="pc-darts"), data)
    assert isinstance(made, smallgroup.Config)
    assert (made.lam, made.seed, made.search.epochs, made.space.name) == (0.7, 3, 4, "darts")
    assert {learner.method for learner in made.learners} == {"pc-darts"}


def test_a_finished_run_is_given_again_on_the_same_data_alone(folder: Path) -> None:
    data = halves(unlabeled=np.zeros((20, 12, 10, 3), np.uint8))
    before = json.loads((folder / "result.json").read_text())
    assert smallgroup.search(CONFIG, data=data, out=folder, resume=True).to_dict() == before
    others = halves("others", unlabeled=np.zeros((20, 12, 10, 3), np.uint8))
    with pytest.raises(ValueError, match=f"data.dataset was '{data.reference}' and is '{others.reference}'"):
        smallgroup.search(CONFIG, data=others, out=folder, resume=True)
    with pytest.raises(ValueError, match=f"data.unlabeled was '{data.unlabeled_reference}' and is 'split'"):
        smallgroup.search(CONFIG, data=halves(), out=folder, resume=True)
    with pytest.raises(ValueError, match=f"data.dataset was '{data.reference}' and is 'digits'"):
        smallgroup.search(CONFIG, out=folder, resume=True)


class Interrupting(Watcher):
    """Ends a run after some steps."""

    def stepped(self, step: int, seconds: float) -> None:  # noqa: ARG002
        if step == 3:
            raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_with_the_same_data_alone(tmp_path: Path, capsys: Captured) -> None:
    whole = smallgroup.search(CONFIG, data=halves(), progress=False).to_dict()
    with pytest.raises(KeyboardInterrupt):
        smallgroup.search(CONFIG, data=halves(), out=tmp_path, watcher=Interrupting())
    assert main(["search", "--out", str(tmp_path), "--resume"]) == 2
    refused = f"error: the images of {halves().reference} come from Python and must be passed again"
    assert capsys.readouterr().err.splitlines()[-1].startswith(refused)
    resumed = smallgroup.search(CONFIG, data=halves(), out=tmp_path, resume=True, progress=False).to_dict()
    for result in (whole, resumed):
        del result["seconds"], result["peak_memory_mb"]
    assert resumed == whole


def test_commands_on_such_a_run(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    Image.fromarray(halves().open().train.fetch(torch.tensor([0]))[0, 0].numpy()).save(tmp_path / "image.png")
    lines = [
        ["show", str(folder)],
        ["describe", str(folder)],
        ["report", str(folder), "--out", str(tmp_path / "page.html")],
        ["predict", str(folder), str(tmp_path / "image.png")],
        ["export", str(folder), "--format", "pt2", "--out", str(tmp_path / "model.pt2")],
    ]
    for line in lines:
        assert main(line) == 0, line
        assert capsys.readouterr().err == ""
    assert halves().reference in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("more", [[], ["--dataset", "own:halves"]])
def test_a_training_from_the_command_line_says_where_the_data_are(
    folder: Path, more: list[str], capsys: Captured
) -> None:
    assert main(["train", str(folder), "--out", str(folder / "other"), *more]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "come from Python and must be passed again: call smallgroup.search, train or run with data=..." in said
    assert not (folder / "other").exists()
    with pytest.raises(ValueError, match="must be passed again"):
        smallgroup.train(folder)


def test_a_cell_is_trained_on_other_data_than_it_was_found_on(folder: Path, tmp_path: Path) -> None:
    others = OwnData((halves("others").open().train.fetch(torch.arange(60)), np.arange(60) % 2), name="pairs")
    found = smallgroup.train(folder, KEYS | {"data": {}}, data=others, out=tmp_path / "run", progress=False)
    assert found.dataset == others.reference
    assert len(found.class_errors or {}) == 2


def test_data_are_given_once(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"data must be given once, but there is data=\.\.\. and dataset is 'cifar10'"):
        smallgroup.search({"dataset": "cifar10"}, data=halves())
    with pytest.raises(ValueError, match="dataset is 'cifar10'"):
        smallgroup.train(folder, smallgroup.Config(dataset="cifar10"), data=halves())
    unlabeled = halves(unlabeled=np.zeros((20, 8, 8), np.uint8))
    for config in ({"unlabeled": "train"}, smallgroup.Config(unlabeled="train")):
        with pytest.raises(ValueError, match="unlabeled is 'train'"):
            smallgroup.search(config, data=unlabeled)


def test_unlabeled_images_of_another_run_are_not_made_up() -> None:
    """A config may name what was given to an earlier run and is not given now."""
    before = halves(unlabeled=np.zeros((20, 8, 8), np.uint8)).unlabeled_reference
    refused = f"a run on {before} needs the same data again, but got {halves().reference}"
    with pytest.raises(ValueError, match=refused):
        smallgroup.search({**CONFIG, "lambda": 1.0, "unlabeled": before}, data=halves(), progress=False)


def test_labeled_images_may_be_given_alone() -> None:
    images, labels = np.zeros((40, 8, 8), np.uint8), np.arange(40) % 2
    images[labels == 1] = 200
    found = smallgroup.search({**CONFIG, "unlabeled": "train"}, data=(images, labels), progress=False)
    assert found.dataset == OwnData((images, labels)).reference


def test_a_whole_run_and_its_resumption(tmp_path: Path) -> None:
    """Play-off, training and a baseline find the data too."""
    config = {**CONFIG, "search": {**CONFIG["search"], "answer": "play-off"}}
    given: Any = {"out": tmp_path, "baselines": ["resnet"], "progress": False}
    result = smallgroup.run(config, data=halves(), **given)
    assert {result.search.dataset, result.training.dataset} == {halves().reference}
    again = smallgroup.run(config, data=halves(), resume=True, **given)
    assert again.to_dict() == result.to_dict()
    assert smallgroup.run(data=halves(), resume=True, **given).to_dict() == result.to_dict()  # with its own config
    with pytest.raises(ValueError, match=r"data\.dataset was"):
        smallgroup.run(config, data=halves("others"), resume=True, **given)


def test_searches_with_several_seeds_and_their_resumption(tmp_path: Path) -> None:
    data = halves()
    found = smallgroup.search_seeds(CONFIG, [1, 2], data=data, out=tmp_path / "seeds", progress=False)
    assert {result.dataset for result in found.results} == {data.reference}
    alone = smallgroup.search({**CONFIG, "seed": 2}, data=data, progress=False)
    assert found.results[1].validation_loss == alone.validation_loss
    again = smallgroup.search_seeds(None, [1, 2], data=data, out=tmp_path / "seeds", resume=True, progress=False)
    assert again == found
    with pytest.raises(ValueError, match=f"data must be given once, .*dataset is '{data.reference}'"):
        smallgroup.search_seeds(None, [1, 2], data=halves("x"), out=tmp_path / "seeds", resume=True, progress=False)
    with pytest.raises(ValueError, match="must be passed again"):
        smallgroup.search_seeds(None, [3], out=tmp_path / "seeds", resume=True, progress=False)


def test_networks_that_learn_from_one_another(tmp_path: Path, folder: Path) -> None:
    data = halves()
    keys = {"training": {**KEYS["training"], "epochs": 1, "steps_per_epoch": 1}}
    cell = json.dumps(json.loads((folder / "genotype.json").read_text()))
    found = smallgroup.train_mutually(cell, keys, learners=2, data=data, out=tmp_path / "both", progress=False)
    assert len(found.learners) == 2
    config = yaml.safe_load((tmp_path / "both" / "config.yaml").read_text())
    assert config["data"]["dataset"] == data.reference
    for given in (keys, None):  # None: with its own config
        again = smallgroup.train_mutually(
            cell, given, learners=2, data=data, out=tmp_path / "both", resume=True, progress=False
        )
        assert again == found
