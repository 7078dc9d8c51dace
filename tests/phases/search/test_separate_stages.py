"""A finished search labels for another one: the ablation with separate stages."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import smallgroup
from smallgroup.config import resolve
from smallgroup.jobs import make_job
from smallgroup.runner import Interrupted, Watcher

SMALL: dict[str, Any] = {
    "space": {"name": "nas-bench-201", "channels": 2},
    "hypergradient": "first-order",
    "search": {"epochs": 2, "steps_per_epoch": 3, "batch_size": {"train": 8, "unlabeled": 8, "validation": 64}},
}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learners that searched on their own."""
    folder = tmp_path_factory.mktemp("first")
    smallgroup.search({**SMALL, "lambda": 0}, out=folder)
    return folder


def saved_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Those of the newest checkpoint, as the files of both learners have them."""
    newest = max((folder / "checkpoints").iterdir())
    return {**load_file(newest / "learner-0.safetensors"), **load_file(newest / "learner-1.safetensors")}


def taught(folder: Path, **changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes, "search": {**SMALL["search"], "labelers": str(folder)}}


def test_the_labels_are_those_of_the_finished_learners(first: Path) -> None:
    job = make_job(resolve(taught(first)))
    inputs = job.unlabeled.batch(0)
    saved = saved_tensors(first)
    assert job.labelers is not None
    for k, labeler in enumerate(job.labelers.frozen):
        weights = {name: saved[f"{k}.w.{name}"] for name in job.searchers[k].learner.w}
        architecture = {name: saved[f"{k}.a.{name}"] for name in job.searchers[k].learner.architecture}
        with torch.no_grad():
            expected = job.searchers[k].relaxed(weights, architecture, inputs)
        torch.testing.assert_close(labeler(inputs), expected, rtol=0, atol=1e-6)
    assert [searcher.learner.v for searcher in job.searchers] == [None, None]
    before = [labeler(inputs) for labeler in job.labelers.frozen]
    learned = [{name: tensor.clone() for name, tensor in one.learner.w.items()} for one in job.searchers]
    report = job.take("all")
    soft = report.learners[0].soft_labels
    assert soft is not None
    torch.testing.assert_close(soft, before[0].softmax(dim=1))
    assert not torch.equal(learned[0]["stem.0.weight"], job.searchers[0].learner.w["stem.0.weight"])
    assert all(torch.equal(old, one(inputs)) for old, one in zip(before, job.labelers.frozen, strict=True))


def test_it_goes_on_with_the_same_bits_wherever_the_labelers_lie(first: Path, tmp_path: Path) -> None:
    whole = smallgroup.search(taught(first), out=tmp_path / "whole")
    _ended_early(taught(first), tmp_path / "part")
    moved = tmp_path / "moved"
    shutil.copytree(first, moved)
    again = smallgroup.search(taught(moved), out=tmp_path / "part", resume=True)
    plain = [each.to_dict() for each in (whole, again)]
    for each in plain:
        del each["seconds"], each["peak_memory_mb"]
    assert plain[0] == plain[1]


def test_other_labelers_than_at_the_beginning_are_refused(first: Path, tmp_path: Path) -> None:
    smallgroup.search({**SMALL, "lambda": 0, "seed": 5}, out=tmp_path / "other")
    _ended_early(taught(first), tmp_path / "part")
    with pytest.raises(ValueError, match="resumed with the labelers it started with"):
        smallgroup.search(taught(tmp_path / "other"), out=tmp_path / "part", resume=True)


def test_what_cannot_label_is_refused(first: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be the folder of a finished search, but"):
        smallgroup.search(taught(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="one frozen labeler per learner"):
        smallgroup.search(taught(first, learners=3))
    with pytest.raises(ValueError, match="labels_from must be v"):
        resolve({"search": {"labelers": str(first), "labels_from": "w"}})
    unfinished = tmp_path / "unfinished"
    shutil.copytree(first, unfinished)
    (unfinished / "result.json").unlink()
    with pytest.raises(ValueError, match="must be the folder of a finished search"):
        smallgroup.search(taught(unfinished))


def test_learners_of_three_stages_label_as_they_ended(tmp_path: Path) -> None:
    space = {"name": "darts", "channels": 2, "cells": 3}
    config = {**SMALL, "method": "p-darts", "space": space, "search": {**SMALL["search"], "epochs": 3}}
    smallgroup.search({**config, "lambda": 0}, out=tmp_path / "first")
    job = make_job(resolve({**config, "search": {**config["search"], "labelers": tmp_path / "first"}}))
    saved = saved_tensors(tmp_path / "first")
    assert job.labelers is not None
    learner = job.labelers.frozen[1]._learner
    assert {f"1.w.{name}" for name in learner.w} == {name for name in saved if name[:4] == "1.w." and "/" not in name}
    assert learner.w.keys() != job.searchers[1].learner.w.keys()  # the first stage has every operation
    assert all(torch.equal(tensor, saved[f"1.w.{name}"]) for name, tensor in learner.w.items())
    assert bool(job.labelers.frozen[1](job.unlabeled.batch(0)).isfinite().all())


class _EndsAfterThree(Watcher):
    def stepped(self, step: int, seconds: float) -> None:  # noqa: ARG002 -- as in its base
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)


def _ended_early(config: dict[str, Any], out: Path) -> None:
    with pytest.raises(Interrupted):
        smallgroup.search(config, out=out, watcher=_EndsAfterThree())
