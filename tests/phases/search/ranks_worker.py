"""`python -m tests.phases.search.ranks_worker RANK FOLDER`: searches whose learners are spread over processes."""

import hashlib
import json
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from smallgroup.data import DataConfig, SearchData, open_search_data
from smallgroup.group import Exchange, RankExchange
from smallgroup.methods import METHODS
from smallgroup.phases.search import SearchJob
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from tests.configs import search_config

RANKS = 2
SPACE = NasBench201Space(channels=2, cells_per_stage=1, images=ImageSpec(10, 1, 8))
FAST = {"epochs": 2, "steps_per_epoch": 3, "batch_size": {"train": 8, "unlabeled": 8, "validation": 8}}
SEARCHES: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
    "three methods": (("darts", "gdas", "fair-darts"), {"hypergradient": "finite-difference"}),
    "warm-up and first-order": (("darts", "darts"), {"hypergradient": "first-order", "v_warmup": 0.4}),
    "independent": (("darts", "darts-minus"), {"hypergradient": "finite-difference", "lam": 0.0}),
}


def outcome(data: SearchData, name: str, exchange: Exchange | None) -> list[str]:
    """Hashes of everything that is saved in the middle and at the end, and of all metrics."""
    methods, options = SEARCHES[name]
    job = make_job(data, methods, options, exchange)
    found, rows = [], []
    while not job.finished:
        rows.append(job.advance())
        if job.step in (2, job.course.steps):
            found.append(saved(job))
    return [*found, digest(rows)]


def resumed(data: SearchData, name: str, exchange: Exchange | None) -> list[str]:
    """The same, taken up after the second step from what the ranks, or one process, have saved."""
    methods, options = SEARCHES[name]
    first = make_job(data, methods, options, exchange)
    first.advance()
    first.advance()
    job = make_job(data, methods, options, exchange)
    job.load_state(*first.state())
    while not job.finished:
        job.advance()
    return [saved(job)]


def make_job(data: SearchData, methods: Sequence[str], options: Any, exchange: Exchange | None) -> SearchJob:
    config = search_config(**{**FAST, **options})
    job = SearchJob(config, data, [(SPACE, METHODS[one]()) for one in methods], seed=3, exchange=exchange)
    job.metrics.indices = job.metrics.indices[:50]
    return job


def saved(job: SearchJob) -> str:
    tensors, record = job.state()
    return digest([[(name, digest_of(tensors[name])) for name in sorted(tensors)], record])


def digest_of(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS, timeout=timedelta(seconds=300)
    )
    data = open_search_data(DataConfig(), seed=0)
    found = {name: outcome(data, name, RankExchange(len(SEARCHES[name][0]))) for name in SEARCHES}
    found["resumed"] = resumed(data, "three methods", RankExchange(3))
    if rank == 0:
        found |= {f"{name}, alone": outcome(data, name, None) for name in SEARCHES}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
