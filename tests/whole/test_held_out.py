"""Images that are kept from search and training alike, to choose something by."""

from pathlib import Path
from typing import Any

import pytest
import torch

import smallgroup
from smallgroup.config import load, resolve
from smallgroup.data import open_search_data
from smallgroup.data.training_data import open_training_data
from smallgroup.jobs import make_job
from smallgroup.phases.evaluate import evaluate

NETWORK = {"channels": 4, "cells": 3, "cells_per_stage": 1, "auxiliary": "none"}
SMALL: dict[str, Any] = {
    "space": {"name": "nas-bench-201", "channels": 2},
    "hypergradient": "first-order",
    "data": {"held_out": 0.1},
    "search": {"epochs": 1, "steps_per_epoch": 2, "batch_size": {"train": 8, "unlabeled": 8, "validation": 64}},
    "training": {"epochs": 1, "steps_per_epoch": 2, "network": NETWORK},
}


def test_a_training_leaves_alone_what_the_search_left_alone() -> None:
    config = resolve({**SMALL, "seed": 3})
    search = open_search_data(config.data, seed=3)
    training = open_training_data(config.data, config.training.augmentation, seed=3)
    assert training.held_out is not None
    assert torch.equal(training.held_out, search.splits.held_out)
    kept, trained = set(training.held_out.tolist()), set(training.trained.tolist())
    assert abs(len(kept) - 0.1 * len(search.dataset.train)) <= 1
    assert not kept & trained
    assert kept | trained == set(range(len(search.dataset.train)))
    assert training.tested is not None
    assert training.tested[0] is training.dataset.train
    stream = training.train(len(trained), seed=3)
    labels = torch.bincount(training.dataset.labels()[training.trained])
    assert torch.equal(torch.bincount(stream.batch(0)[1]), labels)


def test_another_seed_with_the_same_split() -> None:
    data = resolve({**SMALL, "data": {"held_out": 0.1, "split_seed": 3}}).data
    one, other = (open_search_data(data, seed=seed).splits for seed in (3, 8))
    assert torch.equal(one.held_out, other.held_out)
    assert torch.equal(one.train, other.train)
    free = data.model_copy(update={"split_seed": None})
    assert torch.equal(open_search_data(free, seed=3).splits.held_out, one.held_out)
    assert not torch.equal(open_search_data(free, seed=8).splits.held_out, one.held_out)


def test_the_error_of_a_training_is_theirs(tmp_path: Path) -> None:
    result = smallgroup.search({**SMALL, "seed": 3}, out=tmp_path / "search")
    training = smallgroup.train(tmp_path / "search", out=tmp_path / "training")
    assert training.test_set == "not looked at: the errors are those of the held-out images"
    model = smallgroup.load(tmp_path / "training")
    data = open_search_data(resolve({**SMALL, "seed": 3}).data, seed=3)
    again = evaluate(model, data.dataset.train, data.dataset, data.splits.held_out)
    assert training.test_error == pytest.approx(again.error)
    assert training.confusion == again.confusion
    job = make_job(resolve({**SMALL, "seed": 3}))
    while not job.finished:
        job.advance()
    mine = [evaluate(s.logits, data.dataset.train, data.dataset, data.splits.held_out) for s in job.searchers]
    assert [learner.held_out_error for learner in result.group] == [one.error for one in mine]
    assert result.held_out_error == mine[result.retained].error


def test_without_them_there_is_no_such_error(tmp_path: Path) -> None:
    result = smallgroup.search({**SMALL, "data": {}}, out=tmp_path)
    assert result.held_out_error is None
    assert "held_out_error" not in (tmp_path / "result.json").read_text()


def test_a_training_with_another_seed_leaves_the_same_images_alone(tmp_path: Path) -> None:
    smallgroup.search({**SMALL, "seed": 3}, out=tmp_path / "search")
    training = smallgroup.train(tmp_path / "search", {"seed": 8}, out=tmp_path / "training")
    assert training.seed == 8
    data = resolve(load(tmp_path / "training" / "config.yaml")).data
    again = open_training_data(data, resolve(SMALL).training.augmentation, seed=8).held_out
    assert again is not None
    assert torch.equal(again, open_search_data(resolve(SMALL).data, seed=3).splits.held_out)
