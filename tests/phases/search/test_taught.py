"""What is counted on the labels that learners give one another; and that counting changes nothing else."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.api import search
from smallgroup.config import resolve
from smallgroup.jobs import make_job
from smallgroup.phases.pictures import thumbnail
from smallgroup.phases.search.record import facts, files
from smallgroup.phases.search.taught import MOST_DISPUTED, TaughtCounts, divergence
from smallgroup.runner import read_rows

SMALL: dict[str, Any] = {
    "data": {"labeled_fraction": 0.1},
    "space": {"name": "nas-bench-201", "channels": 2},
    "hypergradient": "first-order",
    "search": {
        "epochs": 2,
        "steps_per_epoch": 3,
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 8},
        "v_warmup": 0,
        "architecture_warmup": 0.5,
    },
}


def onehot(*classes: int) -> torch.Tensor:
    return torch.eye(3)[list(classes)]


def test_labels_are_counted_by_class() -> None:
    taught = TaughtCounts(2, 3, torch.tensor([0, 1, 2, 2, 1]))
    taught.note(torch.tensor([4, 0, 2]), [onehot(1, 1, 2), onehot(1, 0, 0)])
    taught.note(torch.tensor([3]), [onehot(2), onehot(2)])
    first, second = (row["pseudo_labels"] for row in taught.rows())
    # Images 4, 0, 2, 3 are of the classes 1, 0, 2, 2.
    assert first == {"given": [0, 2, 2], "images": [1, 1, 2], "right": [0, 1, 2], "agreed": [0, 1, 1]}
    assert second == {"given": [2, 1, 1], "images": [1, 1, 2], "right": [1, 1, 1], "agreed": [0, 1, 1]}
    taught.clear()
    assert taught.rows() == [{}, {}]


def test_without_truth_there_is_agreement_alone() -> None:
    taught = TaughtCounts(3, 3, None)
    taught.note(torch.tensor([0]), [onehot(1), onehot(1), onehot(2)])
    rows = [row["pseudo_labels"] for row in taught.rows()]
    assert [row["agreed"] for row in rows] == [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert all(row.keys() == {"given", "agreed"} for row in rows)


def test_steps_without_labels_count_for_nothing() -> None:
    taught = TaughtCounts(2, 3, None)
    taught.note(torch.tensor([0]), [None, None])
    assert taught.rows() == [{}, {}]


def test_divergence_is_none_for_equals_and_one_for_opposites() -> None:
    tables = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.75, 0.25]], [[0.0, 1.0], [0.5, 0.5], [0.25, 0.75]]])
    by_hand = 1 + 0.75 * math.log2(0.75) + 0.25 * math.log2(0.25)
    assert divergence(tables).tolist() == pytest.approx([1.0, 0.0, by_hand])


def test_the_most_disputed_are_kept_in_order_each_once() -> None:
    taught = TaughtCounts(2, 3, None)
    shares = torch.linspace(0.0, 1.0, 60)
    left = torch.stack([1 - shares, shares, torch.zeros(60)], dim=1)
    right = torch.stack([torch.ones(60), torch.zeros(60), torch.zeros(60)], dim=1)
    taught.note(torch.arange(60), [left, right])
    taught.note(torch.tensor([59, 58]), [right[:2], right[:2]])  # seen again, and not disputed any more
    taught.clear()
    kept = [one["image"] for one in taught.latest]
    assert kept == list(range(57, 57 - MOST_DISPUTED + 2, -1)) + kept[MOST_DISPUTED - 2 :]
    assert len(kept) == MOST_DISPUTED
    assert taught.latest[0]["labels"][0][0] == [1, round(57 / 59, 4)]


def test_the_state_goes_on_where_it_was() -> None:
    tables = [torch.rand(20, 3, generator=torch.Generator().manual_seed(k)).softmax(dim=1) for k in range(4)]
    whole, first, second = (TaughtCounts(2, 3, torch.arange(20) % 3) for _ in range(3))
    for each in (whole, first):
        each.note(torch.arange(20), tables[:2])
    second.load_state(json.loads(json.dumps(first.state())))
    for each in (whole, second):
        each.note(torch.arange(20).flip(0), tables[2:])
    assert whole.state() == second.state()


def test_counting_touches_nothing_of_the_search() -> None:
    states = []
    for counted in (True, False):
        job = make_job(resolve(SMALL))
        if not counted:
            job.metrics.taught.note = lambda *_: None  # type: ignore[method-assign]
        before = torch.get_rng_state()
        while not job.finished:
            job.advance()
        assert torch.equal(before, torch.get_rng_state())
        states.append(job.state()[0])
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_search_writes_down_what_a_report_needs(tmp_path: Path) -> None:
    search(SMALL, out=tmp_path)
    rows = list(read_rows(tmp_path / "metrics.jsonl"))
    for row in rows:
        labels = row["pseudo_labels"]
        # Three batches of 8, of digits that have lost their labels: all of them are known.
        assert sum(labels["given"]) == sum(labels["images"]) == 24
        assert sum(labels["right"]) <= 24
        assert len(row["w_recognised"]) == len(row["v_recognised"]) == 10
        assert [len(line) for line in row["scores"]["cell"]] == [5] * 6
        assert sum(row["scores"]["cell"][0]) == pytest.approx(1, abs=1e-3)
    agreed = [sum(row["pseudo_labels"]["agreed"]) / 24 for row in rows]
    assert agreed == pytest.approx([row["agreement"] for row in rows])
    gallery = json.loads((tmp_path / "gallery.json").read_text())
    assert gallery["epoch"] == 1
    assert 0 < len(gallery["images"]) <= MOST_DISPUTED
    divergences = [one["divergence"] for one in gallery["images"]]
    assert divergences == sorted(divergences, reverse=True)
    assert (tmp_path / "gallery.json").stat().st_size < 30_000
    known = json.loads((tmp_path / "facts.json").read_text())
    assert known["classes"] == [str(digit) for digit in range(10)]
    times = list(read_rows(tmp_path / "times.jsonl"))
    assert [one["step"] for one in times] == [3, 6]
    assert times[1]["seconds"].keys() == {"stage 1", "stage 2", "stage 3", "evaluation", "rest"}
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_thumbnails_are_small_and_before_labels_there_is_no_gallery() -> None:
    assert len(thumbnail(torch.full((3, 400, 300), 200, dtype=torch.uint8))) < 2_000
    job = make_job(resolve(SMALL))
    assert files(job) == {}  # nobody has labeled anything yet
    assert facts(job)["images"]["measured"] == len(job.metrics.indices)
