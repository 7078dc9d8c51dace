"""Learners of a search that other processes compute: between two steps, their state as it is there."""

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from smallgroup.group import Exchange, LocalExchange
from smallgroup.methods import Decision, Rebuild
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.search.metrics import EpochMetrics
from smallgroup.phases.sharing import share_states


def share_learners(exchange: Exchange, searchers: Sequence[Searcher], metrics: EpochMetrics) -> None:
    """Make every learner here what it is in the process that computes it, and what was counted of it too.

    All processes must call it between the same two steps. The end of an epoch and a checkpoint need all learners.
    """
    counted = metrics.state()
    for k, (tensors, sums) in share_states(
        exchange, lambda k: (searchers[k].state(), {name: list(values) for name, values in counted[k].items()})
    ).items():
        searchers[k].load_state(tensors)
        counted[k] = dict(sums)
    metrics.load_state(counted)


def check_same_decisions(
    exchange: Exchange,
    searchers: Sequence[Searcher],
    decisions: Mapping[int, Decision],
    rebuilt: Mapping[int, Searcher],
) -> None:
    """Refuse to go on if architectures, or what methods decided, differ between processes.

    Every process looks at all learners at the end of an epoch, and must come to the same.
    """
    if isinstance(exchange, LocalExchange):
        return
    own = hashlib.sha256()
    for k, searcher in enumerate(searchers):
        decision = decisions.get(k)
        own.update(f"{k} {type(decision).__name__} {searcher.ended}".encode())
        if not isinstance(decision, Rebuild):
            own.update(str(decision).encode())
        for name, tensor in sorted(rebuilt.get(k, searcher).learner.architecture.items()):
            own.update(name.encode() + _bytes_of(tensor))
    mine = torch.frombuffer(bytearray(own.digest()), dtype=torch.uint8)
    for k, tables in enumerate(exchange.tables({k: [mine] for k in exchange.mine})):
        if tables is not None and not torch.equal(tables[0].cpu(), mine):
            raise RuntimeError(
                f"architectures must be the same on all ranks at the end of an epoch, but the rank of learner {k} has "
                "others, or its methods decided otherwise; end the job and resume it on machines that compute alike"
            )


def _bytes_of(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()
