"""Searches with several seeds, from Python."""

from pathlib import Path
from typing import Any

import pytest

import smallgroup
from smallgroup.config import load
from smallgroup.phases.search.answer import retained_record
from smallgroup.phases.search.result import LearnerResult, SearchResult
from smallgroup.seeds import SeedResults

TINY: dict[str, Any] = {
    "learners": 1,
    "data": {"labeled_fraction": 0.1},
    "space": {"channels": 2},
    "search": {"epochs": 1, "steps_per_epoch": 1, "batch_size": {"train": 8, "unlabeled": 8, "validation": 8}},
}


def test_a_search_for_each_seed(tmp_path: Path) -> None:
    found = smallgroup.search_seeds(TINY, [3, 5], out=tmp_path, progress=False)
    assert [result.seed for result in found.results] == [3, 5]
    alone = smallgroup.search({**TINY, "seed": 5}, progress=False)
    assert found.results[1].validation_loss == alone.validation_loss
    losses = [result.validation_loss for result in found.results]
    assert found.mean["validation_loss"] == pytest.approx(sum(losses) / 2)
    assert found.std["validation_loss"] == pytest.approx(abs(losses[0] - losses[1]) / 2**0.5)
    assert load(tmp_path / "seeds.yaml")["space"]["channels"] == 2
    again = smallgroup.search_seeds(None, [3, 5], out=tmp_path, resume=True, progress=False)
    assert again == found
    with pytest.raises(ValueError, match=r"started with, but space.channels was 2 and is 4"):
        smallgroup.search_seeds({**TINY, "space": {"channels": 4}}, [6], out=tmp_path, resume=True, progress=False)
    assert not (tmp_path / "seed-6").exists()


def test_a_time_budget_is_for_each_search(tmp_path: Path) -> None:
    long = {**TINY, "search": {**TINY["search"], "epochs": 5000}}
    found = smallgroup.search_seeds(long, [1, 2], out=tmp_path, seconds=2.0, progress=False)
    steps = {result.steps for result in found.results}
    assert len(steps) == 1
    again = smallgroup.search_seeds(long, [1, 2], out=tmp_path, seconds=60.0, resume=True, progress=False)
    assert again == found  # nothing is measured anew
    assert steps.pop() < 5000


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(ValueError, match="a search of several seeds needs a new or empty folder"):
        smallgroup.search_seeds(TINY, [1], out=tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "photo.jpg"]


def test_what_only_some_results_have_is_not_compared() -> None:
    """Learners in other spaces have no true accuracy, and other seeds may retain them."""
    cell: dict[str, Any] = {"method": "darts", "validation_loss": 1.0, "validation_error": 50.0, "genotype": "x"}
    common: dict[str, Any] = {
        "method": "darts", "space": "nas-bench-201", "dataset": "cifar10", "learners": 1, "lam": 1.0, "seed": 0,
        "hypergradient": "exact", "steps": 1, "seconds": 1.0, "peak_memory_mb": 1.0, "retained": 0, "genotype": "x",
        "parameters": 1, "validation_loss": 1.0, "validation_error": 50.0, "group": [LearnerResult(**cell)],
        "answer": retained_record(0),
    }  # fmt: skip
    known = SearchResult(**common, true_accuracy={"cifar10": 90.0}, percentile={"cifar10": 20.0})
    unknown = SearchResult(**common)
    for results in ((known, unknown), (unknown, known)):
        assert SeedResults(results).mean.keys() == {"validation_error", "validation_loss", "seconds"}
    assert SeedResults((known, known)).mean["true_accuracy_cifar10"] == 90.0


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([True, 2], "seed must be a whole number, but got bool"),
        (["1_0"], "seed must be a whole number, but got str"),
        ([-1], "seed >= 0 must hold, but got seed=-1"),
        ([1, 1], r"seeds must be one or more numbers that differ, but got \[1, 1\]"),
        ([], r"seeds must be one or more numbers that differ, but got \[\]"),
    ],
)
def test_seeds_are_numbers_that_differ(tmp_path: Path, seeds: list[int], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        smallgroup.search_seeds(None, seeds, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
