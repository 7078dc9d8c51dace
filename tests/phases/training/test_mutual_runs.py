"""Mutual learning as a run: resumption at zero tolerance, the test images, what is left behind, and real data."""

import json
import os
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from smallgroup.api import train, train_mutually
from smallgroup.data import AugmentationConfig, DataConfig
from smallgroup.data.training_data import open_training_data
from smallgroup.phases.evaluate import evaluate
from smallgroup.phases.training import MutualResult, Peers, TrainResult, peers, read_model
from smallgroup.phases.training.trainee import Trainee
from smallgroup.runner import read_rows
from smallgroup.spaces import genotypes
from smallgroup.spaces.genotype import Genotype
from tests.data.makers import class_folders
from tests.phases.training.models import BENCHMARK, DARTS
from tests.phases.training.test_mutual import OTHER, SMALL, job, same, states
from tests.runner.jobs import interrupted, runner

CELL = str(BENCHMARK)
TRAINING = {"epochs": 2, "steps_per_epoch": 3, "batch_size": 16, "network": SMALL.model_dump()}


@pytest.mark.parametrize(
    ("changes", "step"),
    [({}, 1), ({}, 3), ({"weight": 0.0}, 4), ({"accumulate": 3, "precision": "float16", "weight": 0.3}, 5)],
)
def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path: Path, changes: dict[str, Any], step: int) -> None:
    cells = (DARTS, CELL, DARTS)
    whole = job(*cells, **changes)
    runner(tmp_path / "whole").run(whole)
    interrupted(job(*cells, **changes), tmp_path / "part", step)
    again = job(*cells, **changes)
    runner(tmp_path / "part").run(again, resume=True)
    assert all(same(one, other) for one, other in zip(states(whole), states(again), strict=True))
    rows = [list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", "part")]
    assert rows[0] == rows[1]
    assert [(row["epoch"], row["learner"]) for row in rows[0]] == [(e, k) for e in range(2) for k in range(3)]


@pytest.mark.parametrize("forgotten", ["1.momentum.classifier.weight", "0.network.cells.0.preprocess0.2.running_mean"])
def test_what_is_forgotten_is_noticed(forgotten: str) -> None:
    """The negative control."""
    group, again = job(DARTS, CELL), job(DARTS, CELL)
    for _ in range(2):
        group.advance()
    tensors, record = group.state()
    assert forgotten in tensors
    tensors[forgotten] = torch.zeros_like(tensors[forgotten])
    again.load_state({name: tensor.clone() for name, tensor in tensors.items()}, record)
    for each in (group, again):
        each.advance()
    learner = int(forgotten[0])
    assert not same(states(group)[learner], states(again)[learner])


def test_each_learner_takes_up_a_scale_of_its_own() -> None:
    """With float16 gradients are scaled; the scale moves rarely, so that no short run would show that it is lost."""
    group, again = (job(DARTS, CELL, precision="float16") for _ in range(2))
    group.advance()
    for trainee, scale in zip(group.trainees, (128.0, 256.0), strict=True):
        trainee.scaler.update(scale)
    tensors, record = group.state()
    again.load_state({name: tensor.clone() for name, tensor in tensors.items()}, json.loads(json.dumps(record)))
    assert [trainee.scaler.get_scale() for trainee in again.trainees] == [128, 256]
    assert again.state()[1] == record


def test_the_test_images_are_looked_at_once_by_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    original = Trainee.test

    def test(self: Trainee) -> Any:
        looks.append((self._whose, len(list(read_rows(tmp_path / "metrics.jsonl")))))
        return original(self)

    monkeypatch.setattr(Trainee, "test", test)
    result = train_mutually([CELL, OTHER], {"training": TRAINING}, out=tmp_path)
    assert looks == [(" of learner 0", 4), (" of learner 1", 4)]
    assert result.test_set == "looked at once, after the last epoch"
    assert not any("test" in key for row in read_rows(tmp_path / "metrics.jsonl") for key in row)
    looks.clear()
    tracked = train_mutually([CELL, OTHER], {"training": {**TRAINING, "track_test": True}})
    assert len(looks) == 2 * 2 + 2
    assert tracked.test_set == "looked at after every epoch"
    assert tracked.mean == result.mean  # looking does not change the training


def test_a_finished_run_says_all_and_its_models_do_the_same(tmp_path: Path) -> None:
    config = {"training": TRAINING, "seed": 2}
    result = train_mutually([DARTS, CELL], config, weight=0.5, out=tmp_path)
    written = json.loads((tmp_path / "result.json").read_text())
    assert written == result.to_dict()
    assert (written["weight"], written["seed"], written["epochs"], written["steps"]) == (0.5, 2, 2, 6)
    promised = "test_error test_error_top5 parameters multiply_adds epochs seconds genotype"
    data = open_training_data(DataConfig(), AugmentationConfig(), seed=1).dataset
    assert data.test is not None
    last = [row for row in read_rows(tmp_path / "metrics.jsonl") if row["epoch"] == 1]
    cells: tuple[Genotype, ...] = (DARTS, BENCHMARK)
    for learner, genotype, row in zip(written["learners"], cells, last, strict=True):
        assert learner.keys() >= set(promised.split())
        assert learner["genotype"] == genotypes.to_plain(genotype)
        assert (learner["divergence"], learner["train_error"]) == (row["divergence"], row["train_error"])
        network, model = read_model(tmp_path / learner["folder"])
        assert model.genotype == genotypes.read(tmp_path / learner["folder"] / "genotype.json")[0] == genotype
        found = evaluate(network, data.test, data, torch.arange(len(data.test)))
        assert (found.error, found.error_top5) == (learner["test_error"], learner["test_error_top5"])
        own = TrainResult.read(tmp_path / learner["folder"])
        assert own is not None
        assert (own.test_error, own.confusion) == (found.error, found.confusion)
    for name in ("test_error", "test_error_top5"):
        assert written["mean"][name] == pytest.approx(fmean(learner[name] for learner in written["learners"]))
    again = train_mutually([DARTS, CELL], config, weight=0.5, out=tmp_path, resume=True)
    assert again == result
    assert Peers.read(tmp_path) == Peers((DARTS, BENCHMARK), 0.5)
    for other, options, sentence in (
        ([DARTS, CELL], {"weight": 0.4}, "weight was 0.5 and is 0.4"),
        ([DARTS, OTHER], {"weight": 0.5}, "learners.1 was"),
        ([DARTS, CELL, CELL], {"weight": 0.5}, "learners.2 was None"),
    ):
        with pytest.raises(ValueError, match=sentence):
            train_mutually(other, config, out=tmp_path, resume=True, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be empty or resumed"):
        train_mutually([DARTS, CELL], config, weight=0.5, out=tmp_path)


def test_a_run_that_lost_a_model_is_not_finished(tmp_path: Path) -> None:
    result = train_mutually(CELL, {"training": TRAINING}, learners=2, out=tmp_path)
    (tmp_path / "learner-1" / "model.safetensors").unlink()
    assert MutualResult.read(tmp_path) is None
    again = train_mutually(CELL, {"training": TRAINING}, learners=2, out=tmp_path, resume=True)
    assert again.mean == result.mean
    assert (tmp_path / "learner-1" / "model.safetensors").exists()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"schema": 2}',
        '{"schema": 1, "spaces": ["darts"], "learners": {}, "weight": 1}',
        json.dumps(
            {"schema": 1, "spaces": ["nas-bench-201"] * 2, "learners": {"0": CELL, "1": CELL}, "weight": 10**400}
        ),
        "[" * 9999,
    ],
    ids=len,
)
def test_a_damaged_file_of_peers_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / peers.FILE).write_text(text)
    with pytest.raises(ValueError, match="must say who learns together, but it does not"):
        Peers.read(tmp_path)


def test_a_single_cell_with_learners_is_a_group_and_without_weight_the_first_is_that_of_train() -> None:
    config = {"training": TRAINING, "seed": 5}
    result = train_mutually(BENCHMARK, config, learners=3, weight=0.0)
    errors = [learner.test_error for learner in result.learners]
    assert len(errors) == 3
    assert len(set(errors)) > 1
    assert train(BENCHMARK, config).test_error == errors[0]


def test_data_without_a_test_part_gives_no_test_error(tmp_path: Path) -> None:
    class_folders(tmp_path / "imagenet" / "train", 12)
    config = {"dataset": "imagenet", "data_root": str(tmp_path), "data": {"size": 12}, "training": TRAINING}
    result = train_mutually([CELL, OTHER], config)
    assert result.test_set == "none"
    assert result.mean is None
    assert [learner.test_error for learner in result.learners] == [None, None]


def test_a_short_run_on_digits_learns_and_brings_the_learners_together() -> None:
    skeleton = {"halvings": 0, "reduction": "residual", "stages": 3, "pooling": "average"}
    network = {**SMALL.model_dump(), **skeleton}
    training = {**TRAINING, "epochs": 1, "steps_per_epoch": 80, "batch_size": 32, "network": network}
    found = {weight: train_mutually([CELL, OTHER], {"training": training}, weight=weight) for weight in (0.0, 1.0)}
    for result in found.values():
        assert result.mean is not None
        assert result.mean["test_error"] < 65  # chance is 90
    for alone, together in zip(found[0.0].learners, found[1.0].learners, strict=True):
        assert together.divergence < alone.divergence / 2


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_a_short_run_on_cifar_beats_chance() -> None:
    network = {"channels": 8, "cells_per_stage": 1}
    training = {"epochs": 1, "steps_per_epoch": 40, "batch_size": 64, "network": network}
    result = train_mutually([CELL, OTHER], {"dataset": "cifar10", "training": training})
    for learner in result.learners:
        assert learner.test_error is not None
        assert learner.test_error < 85  # chance is 90


def test_a_link_in_the_place_of_a_learner_is_refused(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    config = {"training": {**TRAINING, "epochs": 1, "steps_per_epoch": 1}}
    train_mutually([CELL, CELL], config, out=run, progress=False)
    (run / "learner-1").rename(elsewhere)
    (run / "learner-1").symlink_to(elsewhere)
    (elsewhere / "result.json").unlink()  # so that the run is not finished
    before = sorted(path.name for path in elsewhere.iterdir())
    with pytest.raises(ValueError, match="learner-1 must be a folder of the run itself, but it is a link"):
        train_mutually([CELL, CELL], config, out=run, resume=True, progress=False)
    assert sorted(path.name for path in elsewhere.iterdir()) == before
