"""Methods that decide something at the end of an epoch, in short searches that are killed and resumed."""

from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.config import resolve
from smallgroup.jobs import make_job
from smallgroup.phases.search import SearchJob
from smallgroup.runner import read_rows
from tests.runner.jobs import interrupted, runner

OPTIONS: dict[str, dict[str, Any]] = {
    "asap": {},
    "bayes-nas": {},
    "darts-plus": {"criterion": "ranking"},
    "darts-pt": {},
    "dr-nas": {"parts": [2, 1], "kept": [2]},
    "dsnas": {"margin": 0.001},
    "noisy-darts": {},
    "oles": {"every": 1, "least": 0.9},
    "parsec": {"children": 2},
    "proxyless": {"every": 1, "gates": "two"},
    "r-darts": {
        "every": 1,
        "first": 0,
        "window": 1,
        "back": 1,
        "factor": 1e-9,
        "stopping": "adaptive",
        "drop_path": 0.3,
    },
}


def job(method: str) -> SearchJob:
    sizes = {"train": 8, "unlabeled": 8, "validation": 8}
    search = {"epochs": 4, "steps_per_epoch": 1, "batch_size": sizes, "v_warmup": 0.0, "architecture_warmup": 0.0}
    keys = {
        "method": method,
        "learners": 2,
        "hypergradient": "first-order",
        "space": {"name": "nas-bench-201", "channels": 2},
        "data": {"labeled_fraction": 0.05},
        "search": search,
        "methods": {method: OPTIONS[method]},
    }
    return make_job(resolve(keys))


LONG = ("r-darts", "bayes-nas")
"""Of whom a search takes many seconds; `make test` has their steps and decisions."""


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in OPTIONS]
)
def test_a_search_of_two_learners_is_resumed(tmp_path: Path, method: str) -> None:
    whole = job(method)
    runner(tmp_path / "whole").run(whole)
    interrupted(job(method), tmp_path / "part", 2)
    again = job(method)
    runner(tmp_path / "part").run(again, resume=True)
    for name, tensor in whole.state()[0].items():
        assert torch.equal(tensor, again.state()[0][name]), name
    left, right = (list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", "part"))
    assert left == right
    check(method, whole, left)


def check(method: str, search: SearchJob, rows: list[dict[str, Any]]) -> None:
    """What a method has decided is seen."""
    masks = [searcher.relaxed.method.mask("cell") for searcher in search.searchers]
    match method:
        case "darts-pt":
            assert all(bool((mask.sum(dim=1) == 1).all()) for mask in masks)
        case "dsnas":
            assert all(bool((mask.sum(dim=1) == 1).any()) for mask in masks)
        case "dr-nas":
            assert all(bool((mask.sum(dim=1) == 2).all()) for mask in masks)
            assert [row["epoch"] for row in rows if row.get("rebuilt")] == [1, 1]
        case "bayes-nas":
            assert all("gamma_alpha_cell" in searcher.relaxed.method.state for searcher in search.searchers)
        case "r-darts":
            assert any(row.get("rolled_back") for row in rows)
            assert search.repeated > 0
            assert [searcher.settings["weight_decay"] for searcher in search.searchers] == pytest.approx([0.03, 0.03])
        case "darts-plus":
            assert all("order_cell" in searcher.relaxed.method.state for searcher in search.searchers)
