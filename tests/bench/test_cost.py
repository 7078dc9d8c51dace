"""The cost model: passes are those that are counted in a group, and bytes are those that ranks receive."""

import json
from pathlib import Path

import pytest
import torch
from torch import distributed

from smallgroup.bench.cost import PASSES, GroupSizes, cost_of
from smallgroup.bench.group_calls import CLASSES, group_for, make_batches
from smallgroup.bench.group_step import GroupStep
from smallgroup.group import RankExchange
from tests.group.test_cost import TOTALS
from tests.tools.cost_table import table
from tests.tools.ranks import fork

RANKS = 2
GROUPS = [("first-order", 2), ("finite-difference", 2), ("exact", 2), ("first-order", 3), ("finite-difference", 3)]
BATCH = 6


def test_passes_are_those_that_are_counted() -> None:
    assert PASSES == TOTALS


def test_learners_on_ranks_share_passes_and_hold_what_they_move() -> None:
    about = {"hypergradient": "finite-difference", "weights": 1000, "kept": 50, "batch": 10}
    alone, shared = (cost_of(GroupSizes(learners=4, ranks=ranks, **about)) for ranks in (1, 2))  # type: ignore[arg-type]
    assert (alone.learners, alone.forward, alone.backward) == (4, 48, 44)
    assert alone.passes == pytest.approx(4 * (12 + 2 * 11) / 3)
    assert (alone.received, shared.passes) == (0, alone.passes / 2)
    assert alone.memory == 4 * 10 * 4 * 1000 + 750
    assert shared.memory == (2 * 10 + 2 * 2) * 4 * 1000 + 750


def receive(rank: int, folder: Path) -> None:
    """Write down the bytes that this rank receives in a step of each group."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    found = []
    for hypergradient, learners in GROUPS:
        step = GroupStep(
            space="nas-bench-201", channels=2, cells_per_stage=1, batch=BATCH, size=8, learners=learners,
            hypergradient=hypergradient,
        )  # fmt: skip
        exchange = RankExchange(learners)
        group, _ = group_for(step, exchange)
        group.step(*make_batches(step))  # in the first step ranks compare their sizes
        before = exchange.received
        group.step(*make_batches(step))
        found.append(exchange.received - before)
    (folder / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


def test_bytes_are_those_that_the_busiest_rank_receives(tmp_path: Path) -> None:
    found = fork(lambda rank: receive(rank, tmp_path), RANKS, tmp_path)
    expected = [
        cost_of(GroupSizes(learners=k, ranks=RANKS, hypergradient=mode, batch=BATCH, classes=CLASSES)).received
        for mode, k in GROUPS
    ]
    assert [max(bytes_) for bytes_ in zip(*found, strict=True)] == expected


def test_the_page_has_the_table_of_the_model() -> None:
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
    assert "\n".join(table()) in page
