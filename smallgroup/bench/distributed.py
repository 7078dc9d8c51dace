"""`bench distributed`: learners on ranks against one process, in CPU seconds, and against the cost model."""

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch

from smallgroup.bench.child import in_a_process
from smallgroup.bench.cost import GroupSizes, cost_of
from smallgroup.bench.group_step import GroupStep
from smallgroup.runtime.checks import check_counts

AT_LEAST, AT_MOST_SHARE = 1.9, 0.01
"""CPU seconds of one process over those of the busiest rank, for two learners on two ranks; shares of a step."""
ROUNDS, STEPS = 3, 3
CLASSES = 10
Watch = Callable[[str, int, int], None]


def measure(case: GroupStep, ranks: int, rounds: int, watch: Watch | None = None) -> dict[str, Any]:
    """Measure one process and `ranks` of them in turn; CPU seconds are those of a step, medians over all rounds."""
    check_counts(ranks=ranks, rounds=rounds)
    if ranks < 2:
        raise ValueError(f"ranks must be at least 2, but got {ranks}")
    alone: list[Mapping[str, Any]] = []
    on_ranks: list[list[Mapping[str, Any]]] = []
    for number in range(rounds):
        if watch is not None:
            watch("one process", 2 * number, 2 * rounds)
        alone.append(_process(case, None, ranks, ""))
        if watch is not None:
            watch(f"{ranks} ranks", 2 * number + 1, 2 * rounds)
        on_ranks.append(_ranks(case, ranks))
    ratios = [_seconds(one) / max(map(_seconds, several)) for one, several in zip(alone, on_ranks, strict=True)]
    one = median(map(_seconds, alone))
    busiest = [max(several, key=_seconds) for several in on_ranks]
    of_rank = median(map(_seconds, busiest))
    received = max(int(rank["received"]) for several in on_ranks for rank in several)
    sizes = {"batch": case.batch, "classes": CLASSES, "hypergradient": case.hypergradient}
    weights = int(alone[0]["weights"])
    model = cost_of(GroupSizes(learners=case.learners, ranks=ranks, weights=weights, **sizes))  # type: ignore[arg-type]
    single = cost_of(GroupSizes(learners=case.learners, weights=weights, **sizes))  # type: ignore[arg-type]
    of_pass = median(float(found["pass"]) for found in alone)
    standard = case.learners == ranks == 2
    return {
        "name": case.name,
        "ranks": ranks,
        "one_seconds": one,
        "rank_seconds": of_rank,
        "ratio": one / of_rank,
        "spread": [min(ratios), max(ratios)],
        "at_least": AT_LEAST if standard else None,
        "exchange_share": median(_share(found) for found in busiest),
        "local_exchange_share": median(_share(found) for found in alone),
        "at_most_share": AT_MOST_SHARE,
        "received": received,
        "pass_seconds": of_pass,
        "model": {
            "one_seconds": single.seconds(of_pass),
            "rank_seconds": model.seconds(of_pass),
            "ratio": single.passes / model.passes,
            "received": model.received,
        },
        **case.sizes,
    }


def _seconds(found: Mapping[str, Any]) -> float:
    return float(median(found["seconds"]))


def _share(found: Mapping[str, Any]) -> float:
    return float(median(part / whole for part, whole in zip(found["exchanged"], found["seconds"], strict=True)))


def _ranks(case: GroupStep, ranks: int) -> list[Mapping[str, Any]]:
    """Return what every rank has measured; they meet over gloo."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(ranks) as pool:
        store = f"file://{Path(folder) / 'store'}"
        return list(pool.map(lambda rank: _process(case, rank, ranks, store), range(ranks)))


def _process(case: GroupStep, rank: int | None, ranks: int, store: str) -> Mapping[str, Any]:
    asked = {"case": asdict(case), "rank": rank, "ranks": ranks, "store": store, "steps": STEPS}
    what = case.name if rank is None else f"{case.name} on rank {rank}"
    return in_a_process("smallgroup.bench.one_rank", {**asked, "threads": torch.get_num_threads()}, what)
