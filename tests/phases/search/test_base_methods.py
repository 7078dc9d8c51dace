"""The base methods in searches: alone and as groups, alike and mixed, on digits and on real images."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

import smallgroup
from smallgroup.cli import main
from smallgroup.config import resolve
from smallgroup.data.errors import DataError
from smallgroup.jobs import make_job
from smallgroup.runner import read_rows
from smallgroup.spaces.darts import DartsGenotype
from smallgroup.spaces.genotypes import read
from tests.data.makers import cifar10_folder

METHODS = ("darts", "darts-minus", "pc-darts", "p-darts")
DATA = pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")


def short(method: str, learners: int, **changes: Any) -> dict[str, Any]:
    """A search of a few steps; P-DARTS has three stages, each of an epoch."""
    staged = method == "p-darts"
    space = {"name": "darts", "channels": 2, "cells": 3} if staged else {"name": "nas-bench-201", "channels": 4}
    sizes = {"train": 8, "unlabeled": 8, "validation": 8}
    return {
        "method": method,
        "learners": learners,
        "hypergradient": "first-order",
        "space": space,
        "search": {
            "epochs": 3 if staged else 2,
            "steps_per_epoch": 1 if staged else 2,
            "batch_size": sizes,
            "v_warmup": 0.0,
        },
        "methods": {"p-darts": {"added": [0, 0]}} if staged else {},
        **changes,
    }


@pytest.mark.parametrize("learners", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_short_search_on_digits(tmp_path: Path, method: str, learners: int) -> None:
    check(tmp_path, short(method, learners, data={"labeled_fraction": 0.1}))


@DATA
@pytest.mark.parametrize(("method", "learners"), [("darts", 1), *((method, 2) for method in METHODS)])
def test_a_short_search_on_real_images(tmp_path: Path, method: str, learners: int) -> None:
    data = {"dataset": "cifar10", "unlabeled": "cifar100", "labeled_fraction": 0.02}
    check(tmp_path, short(method, learners, data=data))


def test_a_learner_alone_needs_no_other_images(tmp_path: Path) -> None:
    """The recipe names CIFAR-100 as the unlabeled images of CIFAR-10, and nobody looks at them."""
    cifar10_folder(tmp_path)
    keys = short("darts", 1, data={"dataset": "cifar10", "unlabeled": "cifar100", "data_root": str(tmp_path)})
    job = make_job(resolve(keys))
    assert len(job.data.splits.train) == 100
    with pytest.raises(DataError, match="CIFAR-100"):
        make_job(resolve({**keys, "learners": 2}))
    assert make_job(resolve({**keys, "learners": 2, "lam": 0.0})).data.digest == job.data.digest


def check(folder: Path, keys: dict[str, Any]) -> None:
    method, learners = keys["method"], keys["learners"]
    result = smallgroup.search(keys, out=folder)
    assert (result.method, result.learners, len(result.group)) == (method, learners, learners)
    genotype, origin = read(folder / "genotype.json")
    assert origin is not None
    assert origin.method == method
    rows = list(read_rows(folder / "metrics.jsonl"))
    assert len(rows) == keys["search"]["epochs"] * learners
    if method == "p-darts":
        assert isinstance(genotype, DartsGenotype)
        assert genotype.normal.skips <= 2
        assert [row["stage"] for row in rows if row["learner"] == 0] == [0, 1, 2]


MIXED: dict[str, Any] = {
    "learners": [
        {"method": "darts"},
        {"method": "pc-darts", "options": {"part": 4}, "space": {"channels": 8}},
        {"method": "darts-minus", "space": {"name": "darts", "channels": 2, "cells": 3}},
    ],
    "space": {"name": "nas-bench-201", "channels": 2, "cells_per_stage": 2},
    "data": {"labeled_fraction": 0.1},
    "hypergradient": "finite-difference",
    "search": {"epochs": 1, "steps_per_epoch": 2, "batch_size": {"train": 4, "unlabeled": 4, "validation": 4}},
}


def test_learners_that_differ_in_everything_come_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another method, another width, another depth, another space."""
    (tmp_path / "mixed.yaml").write_text(yaml.safe_dump(MIXED))
    out = tmp_path / "run"
    assert main(["search", "--config", str(tmp_path / "mixed.yaml"), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "learner 1: pc-darts in nas-bench-201" in shown.err
    assert "learner 2: darts-minus in darts" in shown.err
    rows = list(read_rows(out / "metrics.jsonl"))
    assert [row["learner"] for row in rows] == [0, 1, 2]
    # All of them teach and are taught: nobody's architecture stands outside the equations.
    assert all(row["norm_cross"] > 0 for row in rows)


def test_a_group_of_darts_and_pc_darts_in_one_space() -> None:
    keys = {**MIXED, "learners": [{"method": "darts"}, {"method": "pc-darts"}]}
    job = make_job(resolve(keys))
    names = [searcher.relaxed.method.name for searcher in job.searchers]
    assert names == ["darts", "pc-darts"]
    first, second = (sum(t.numel() for t in searcher.learner.w.values()) for searcher in job.searchers)
    assert second < first
    assert set(job.searchers[1].learner.architecture) == {"alpha_cell", "beta_cell"}
    job.advance()
