"""`smallgroup.search`, from a config to the files of a run."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import smallgroup
from smallgroup.api import train_mutually
from smallgroup.config import load, resolve
from smallgroup.data.errors import DataError
from smallgroup.runner import Watcher
from smallgroup.spaces.genotypes import Origin, read

QUICK: dict[str, Any] = {
    "space": {"name": "nas-bench-201", "channels": 2},
    "hypergradient": "first-order",
    "search": {
        "epochs": 2,
        "steps_per_epoch": 3,
        "v_warmup": 0.1,
        "architecture_warmup": 0.2,
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 64},
    },
}


def test_a_search_leaves_a_folder_that_says_what_was_found(tmp_path: Path) -> None:
    generator, threads = torch.get_rng_state(), torch.get_num_threads()
    result = smallgroup.search({**QUICK, "learners": 3, "lambda": 0.5, "seed": 4}, out=tmp_path)
    assert torch.equal(generator, torch.get_rng_state())
    assert threads == torch.get_num_threads()
    written = json.loads((tmp_path / "result.json").read_text())
    assert written == result.to_dict()
    promised = "method space dataset learners lambda hypergradient seed steps seconds peak_memory_mb retained genotype"
    promised += " parameters validation_loss validation_error group"
    assert written.keys() >= set(promised.split())
    assert (written["method"], written["space"], written["dataset"]) == ("darts", "nas-bench-201", "digits")
    assert (written["learners"], written["lambda"], written["seed"], written["steps"]) == (3, 0.5, 4, 6)
    losses = [learner["validation_loss"] for learner in written["group"]]
    assert written["retained"] == losses.index(min(losses))
    assert written["genotype"] == written["group"][written["retained"]]["genotype"]
    assert len(set(losses)) == 3
    genotype, origin = read(tmp_path / "genotype.json")
    assert str(genotype) == written["genotype"]
    assert origin == Origin("darts", "digits", 4)
    assert resolve(load(tmp_path / "config.yaml")) == resolve({**QUICK, "learners": 3, "lambda": 0.5, "seed": 4})
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 6


def test_a_result_knows_its_metrics_also_where_nothing_is_kept(tmp_path: Path) -> None:
    result = smallgroup.search(QUICK, progress=False)
    assert [(row["epoch"], row["learner"]) for row in result.history] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert list(result.metrics().columns[:2]) == ["epoch", "learner"]
    assert len(result.plot().axes[0].lines) == 4  # V and W of two learners
    kept = smallgroup.search(QUICK, progress=False, out=tmp_path)
    again = smallgroup.search(QUICK, progress=False, out=tmp_path, resume=True)
    assert again == kept
    assert again.history == kept.history == result.history
    assert smallgroup.search(progress=False, out=tmp_path, resume=True) == kept  # with its own config
    (tmp_path / "metrics.jsonl").write_text("{")
    assert smallgroup.search(QUICK, progress=False, out=tmp_path, resume=True).history == ()


def test_the_same_config_gives_the_same_result_and_another_seed_another() -> None:
    found = [smallgroup.search({**QUICK, "seed": seed}).to_dict() for seed in (0, 0, 1)]
    for each in found:
        del each["seconds"], each["peak_memory_mb"]
    assert found[0] == found[1]
    assert found[0]["validation_loss"] != found[2]["validation_loss"]


def test_progress_is_shown_unless_it_is_turned_off(capsys: pytest.CaptureFixture[str]) -> None:
    """A line per epoch on standard error, where it is no terminal."""

    def lines() -> list[str]:
        out, err = capsys.readouterr()
        assert out == ""
        return err.splitlines()

    smallgroup.search({**QUICK, "learners": 2})
    number = r"\d+\.\d+"
    learners = "; ".join(rf"learner {k}: validation {number}, error W % {number}" for k in (0, 1))
    shown = [line for line in lines() if not line.startswith("warning: ")]  # a search this short may warn of its cell
    for epoch, line in enumerate(shown, start=1):
        assert re.fullmatch(rf"epoch {epoch}/2  step {3 * epoch}/6  \d+ s, \d+ s left  {learners}", line), line
    assert epoch == 2
    network = {"channels": 4, "cells": 3, "cells_per_stage": 1, "auxiliary": "none"}
    config = {"training": {"epochs": 1, "steps_per_epoch": 2, "network": network}}
    cell = "|nor_conv_3x3~0|+|none~0|none~1|+|none~0|nor_conv_3x3~1|none~2|"
    quiets: list[dict[str, Any]] = [{"progress": False}, {"watcher": Watcher()}]
    trainings: list[tuple[Any, Any]] = [(smallgroup.train, cell), (train_mutually, [cell, cell])]
    for train, cells in trainings:
        train(cells, config)
        (line,) = lines()
        assert re.match(rf"epoch 1/1  step 2/2  .* loss {number}, ", line), line
        for quiet in quiets:
            train(cells, config, **quiet)
            assert lines() == []
    for quiet in quiets:
        smallgroup.search(QUICK, **quiet)
        assert lines() == []


def test_learners_may_differ_in_method_and_size(tmp_path: Path) -> None:
    learners: list[Any] = [{"method": "gdas"}, {"space": {"name": "darts", "channels": 2}}]
    result = smallgroup.search({**QUICK, "learners": learners}, out=tmp_path)
    assert (result.method, result.space) == ("gdas+darts", "nas-bench-201+darts")
    read(tmp_path / "genotype.json")


def test_the_cell_of_a_search_is_trained_with_its_data_and_seed(tmp_path: Path) -> None:
    network = {"channels": 4, "cells": 3, "cells_per_stage": 1, "auxiliary": "none"}
    training = {"epochs": 1, "steps_per_epoch": 2, "network": network}
    data = {"labeled_fraction": 0.1}
    smallgroup.search({**QUICK, "seed": 4, "data": data, "training": training}, out=tmp_path / "run")
    result = smallgroup.train(tmp_path / "run", out=tmp_path / "own")
    assert (result.seed, result.steps) == (4, 2)
    assert load(tmp_path / "own" / "config.yaml")["data"]["labeled_fraction"] == 0.1
    changed = {"seed": 5, "recipe": "quick", "training": {**training, "epochs": 2}}
    result = smallgroup.train(str(tmp_path / "run"), changed, out=tmp_path / "other")
    assert (result.seed, result.steps) == (5, 4)
    assert load(tmp_path / "other" / "config.yaml")["data"]["labeled_fraction"] == 0.1


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    smallgroup.search(QUICK, out=tmp_path)
    before = (tmp_path / "config.yaml").read_text()
    with pytest.raises(ValueError, match="must be empty or resumed"):
        smallgroup.search({**QUICK, "seed": 9}, out=tmp_path)
    assert (tmp_path / "config.yaml").read_text() == before
    with pytest.raises(ValueError, match="seed was 0 and is 9"):
        smallgroup.search({**QUICK, "seed": 9}, out=tmp_path, resume=True)
    again = smallgroup.search(QUICK, out=tmp_path, resume=True)
    assert again.steps == 6


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_true_accuracies_stand_beside_where_the_table_is_found() -> None:
    result = smallgroup.search(QUICK)
    assert result.true_accuracy is not None
    assert result.percentile is not None
    assert result.percentile_at_cost is not None
    assert result.true_accuracy.keys() == result.percentile.keys() == {"cifar10", "cifar100"}
    assert result.percentile_at_cost.keys() == result.percentile.keys()
    assert all(learner.true_accuracy for learner in result.group)


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="no attribute 'serach'"):
        smallgroup.serach  # type: ignore[attr-defined]  # noqa: B018


def test_a_config_may_be_the_path_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("dataset: folder:nowhere\n")
    with pytest.raises(DataError, match="nowhere does not exist"):
        smallgroup.search(str(path))
    with pytest.raises(DataError, match="nowhere does not exist"):
        smallgroup.train("DARTS_V2", path)
    for wrong, said in (("digits", "there is no file 'digits'"), (["digits"], r"got \"\['digits'\]\"")):
        with pytest.raises(ValueError, match=f"^a config must be a Config, .* YAML file, but {said}$"):
            smallgroup.search(wrong)  # type: ignore[arg-type]
