"""Every row of the paper's tables: its learners at full size, and one step of every kind of group."""

from typing import Any

import pytest
import torch

from smallgroup import recipes
from smallgroup.config import resolve
from smallgroup.data import SearchData
from smallgroup.data.augment import Augmentation
from smallgroup.data.dataset import Dataset
from smallgroup.data.images import TensorImages
from smallgroup.data.splits import Splits
from smallgroup.jobs import make_job
from smallgroup.phases.search import SearchJob
from smallgroup.recipes import PaperRow
from smallgroup.runtime import stream
from smallgroup.spaces import Space
from smallgroup.spaces.edges import MixedEdge

CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000}
COUNTS = {
    ("darts", 10): 1_930_618,
    ("darts", 100): 1_953_748,
    ("darts-minus", 10): 1_971_578,
    ("darts-minus", 100): 1_971_578 + 1_953_748 - 1_930_618,  # as DARTS, with the auxiliary connections
    ("p-darts", 10): 1_275_834,
    ("p-darts", 100): 1_298_964,
    ("pc-darts", 10): 299_578,
    ("pc-darts", 100): 322_708,
    ("pc-darts", 1000): 956_512,
    ("merge-nas", 10): 725_498,
}
"""Weights of a supernet by method and classes, as published; of P-DARTS in its first stage."""
BASE = {"darts", "darts-minus", "p-darts", "pc-darts"}
"""The methods that the paper wraps."""
ROWS = list({str(row.keys): row for row in reversed(recipes.rows())}.values())[::-1]
"""Rows that transfer a cell to other data are searches of other rows."""


def count(method: str, dataset: str, space: Space) -> int:
    """Weights of the supernet of a row."""
    if (method, CLASSES[dataset]) in COUNTS:
        return COUNTS[method, CLASSES[dataset]]
    if (getattr(space, "cells", 0), getattr(space, "channels", 0)) == (8, 16) and dataset != "imagenet":
        return COUNTS["darts", CLASSES[dataset]]
    return sum(parameter.numel() for parameter in space.supernet(MixedEdge, {}).parameters())


def generated(dataset: str) -> SearchData:
    """Eight random images of the size and with the number of classes of a dataset."""
    size, classes = (224 if dataset == "imagenet" else 32), CLASSES[dataset]
    pixels = torch.randint(0, 256, (8, 3, size, size), generator=stream(0), dtype=torch.uint8)
    images = TensorImages(pixels, torch.arange(8))
    three = (0.5, 0.5, 0.5)
    names = tuple(map(str, range(classes)))
    made = Dataset(dataset, names, images, None, three, three, 3, size, Augmentation())
    first, second = torch.arange(4), torch.arange(4, 8)
    return SearchData(made, Splits(first, second, None, first[:0]), images, second, Augmentation(), 0)


ALWAYS = [row for row in ROWS if row.search["method"] in BASE and row.recipe == "paper" and row.table == 1]
"""The base methods of the paper's first table; the other rows, and all steps, where there is time."""


def called(row: PaperRow) -> str:
    return f"{row.recipe}-{row.table}-{row.name}"


def at_full_size(row: PaperRow) -> SearchJob:
    """Return a job with batches of two images; what a row promises is read off it."""
    two = {"train": 2, "unlabeled": 2, "validation": 2}
    dataset, method = row.search["dataset"], row.search["method"]
    job = make_job(resolve({**row.keys, "search": {"batch_size": two}}), generated(dataset))
    assert len(job.searchers) == row.search["learners"]
    for searcher in job.searchers:
        assert searcher.relaxed.method.name == method
        assert sum(t.numel() for t in searcher.learner.w.values()) == count(method, dataset, searcher.relaxed.space)
    return job


@pytest.mark.parametrize("row", ALWAYS, ids=called)
def test_a_row_is_a_search_at_full_size(row: PaperRow) -> None:
    at_full_size(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=called)
def test_a_row_takes_a_step_at_full_size(row: PaperRow) -> None:
    """A step that moves everything."""
    job = at_full_size(row)
    before: list[Any] = [
        {name: t.clone() for name, t in {**s.learner.architecture, **s.learner.w}.items()} for s in job.searchers
    ]
    for searcher in job.searchers:
        searcher.prepare(0)
    report = job.take("all")
    for searcher, old, one in zip(job.searchers, before, report.learners, strict=True):
        moved = {**searcher.learner.architecture, **searcher.learner.w}
        assert any(not torch.equal(moved[name], t) for name, t in old.items() if "alpha" in name)
        assert not torch.equal(moved["classifier.weight"], old["classifier.weight"])
        assert all(bool(t.isfinite().all()) for t in moved.values())
        # The equations have terms through peers, first order has none: what "DARTS(1st) + SGL" computes.
        through_peers = job.config.hypergradient == "finite-difference" and len(job.searchers) > 1
        assert (one.norms["cross"] > 0) == through_peers
