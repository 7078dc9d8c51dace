"""`python -m tests.group.ranks.worker RANK FOLDER [all]`: one of three processes that carry out cases together.

Groups of one, two and three of them are the ranks; each also computes a third of the cases alone. Each writes a file.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, distributed

from smallgroup.group import LocalExchange, RankExchange, SmallGroup
from tests.group.networks import make_learners
from tests.group.ranks.cases import FEW as FEW_CASES
from tests.group.ranks.cases import cases
from tests.group.ranks.failures import FEW as FEW_FAILURES
from tests.group.ranks.failures import different_sizes, different_steps, failures, never_finished

RANKS = 3
BATCH, CLASSES = 200, 4


@contextmanager
def counted() -> Iterator[list[int]]:
    """Bytes that `torch.distributed` brings to this process, a number per call, counted where it is called."""
    received: list[int] = []
    broadcast, all_gather = distributed.broadcast, distributed.all_gather

    def counting_broadcast(tensor: Tensor, *, group: Any, group_src: int) -> None:
        broadcast(tensor, group=group, group_src=group_src)
        received.append(tensor.nbytes if distributed.get_rank(group) != group_src else 0)

    def counting_all_gather(tensors: list[Tensor], tensor: Tensor, *, group: Any) -> None:
        all_gather(tensors, tensor, group=group)
        received.append(sum(each.nbytes for each in tensors) - tensor.nbytes)

    with mock.patch.multiple(distributed, broadcast=counting_broadcast, all_gather=counting_all_gather):
        yield received


def traffic() -> int:
    """Bytes that the loopback interface has received, of all processes."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def received_per_step(group: Any, count: int, options: dict[str, Any]) -> list[list[int]]:
    """What two steps bring: bytes counted at the calls, by the exchange, on the wire for all ranks together; calls."""
    exchange = RankExchange(count, group=group)
    small = SmallGroup(make_learners(count, torch.float32), hypergradient="exact", exchange=exchange, **options)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 2, 6, 6, generator=generator)
    u = torch.randn(BATCH, 2, 6, 6, generator=generator)
    y = torch.randint(CLASSES, (6,), generator=generator)
    found = []
    for _ in range(2):
        distributed.barrier(group=group)
        before, wire = exchange.received, traffic()
        with counted() as received:
            small.step((x, y), u, (x, y))
        mine = exchange.received - before
        distributed.barrier(group=group)
        found.append([sum(received), mine, traffic() - wire, len(received)])
    return found


def main(rank: int, folder: Path, everything: bool) -> None:
    torch.set_num_threads(1)
    patient = timedelta(hours=2)  # ranks wait for those that still compute the cases before
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS, timeout=patient
    )
    groups = {ranks: distributed.new_group(list(range(ranks)), timeout=patient) for ranks in range(1, RANKS + 1)}
    chosen: dict[str, Callable[..., Any]] = {**{name: case.outcome for name, case in cases().items()}, **failures()}
    if not everything:
        chosen = {name: chosen[name] for name in (*FEW_CASES, *FEW_FAILURES)}
    own = list(chosen)[rank::RANKS]
    found: dict[str, Any] = {"local": {name: chosen[name](LocalExchange) for name in own}}
    for ranks, group in groups.items():
        if rank < ranks:
            found[str(ranks)] = {
                name: outcome(lambda count, group=group: RankExchange(count, group=group))
                for name, outcome in chosen.items()
            }
            settings = {"paper": {}, "joint": {"labels_from": "w-joint"}}
            found[f"bytes {ranks}"] = {
                f"{name}, K = {count}": received_per_step(group, count, options)
                for name, options in settings.items()
                for count in ((2, 3, 4) if everything else (4,))
            }
    found["different steps"] = different_steps(RankExchange)
    found["different sizes"] = different_sizes(RankExchange)
    write(rank, folder, found)
    distributed.barrier()
    start = time.monotonic()
    found["death"] = never_finished(RankExchange, lambda: os._exit(9))
    found["seconds until it is known"] = time.monotonic() - start
    write(rank, folder, found)


def write(rank: int, folder: Path, found: dict[str, Any]) -> None:
    (folder / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] == ["all"])
    os._exit(0)  # a process group with a dead rank is not taken down in order
