"""Steps of a group on one rank, or alone, measured in CPU seconds: `python -m smallgroup.bench.one_rank JSON`.

CPU seconds, because ranks on one machine wait for each other, and a machine does other things beside.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import Any, TypeVar

import torch
from torch import distributed

from smallgroup.bench.child import read_asked, say
from smallgroup.bench.group_calls import group_for, make_batches
from smallgroup.bench.group_step import GroupStep
from smallgroup.group import Exchange, LocalExchange, RankExchange
from smallgroup.group.exchange import Tables
from smallgroup.runtime.allocator import keep_memory

Result = TypeVar("Result")


class TimedExchange:
    """An exchange whose CPU seconds are counted."""

    def __init__(self, inner: Exchange) -> None:
        self.inner, self.size, self.mine = inner, inner.size, inner.mine
        self.seconds = 0.0

    def tables(self, own: Mapping[int, Tables | None]) -> Sequence[Tables | None]:
        """Exchange the tables, and count the seconds that it takes."""
        return self._timed(lambda: self.inner.tables(own))

    def agree(self, failure: BaseException | None) -> None:
        """Agree on the end of a step, and count the seconds that it takes."""
        self._timed(lambda: self.inner.agree(failure))

    def _timed(self, act: Callable[[], Result]) -> Result:
        start = time.process_time()
        try:
            return act()
        finally:
            self.seconds += time.process_time() - start


def main(text: str) -> None:
    """Read what to do, do it, say what came of it."""
    asked = read_asked(text)
    keep_memory()
    torch.set_num_threads(asked["threads"])
    step, rank = GroupStep(**asked["case"]), asked["rank"]
    if rank is not None:
        distributed.init_process_group(
            "gloo", init_method=asked["store"], rank=rank, world_size=asked["ranks"], timeout=timedelta(minutes=10)
        )
    inner = LocalExchange(step.learners) if rank is None else RankExchange(step.learners)
    exchange = TimedExchange(inner)
    group, searchers = group_for(step, exchange)
    batches = make_batches(step)
    group.step(*batches)
    seconds, exchanged, received = [], [], 0
    for _ in range(asked["steps"]):
        before, own, bytes_before = time.process_time(), exchange.seconds, getattr(inner, "received", 0)
        group.step(*batches)
        seconds.append(time.process_time() - before)
        exchanged.append(exchange.seconds - own)
        received = getattr(inner, "received", 0) - bytes_before
    found: dict[str, Any] = {"seconds": seconds, "exchanged": exchanged, "received": received}
    found["learners"] = len(exchange.mine)
    if rank is None:
        found["pass"], found["weights"] = _pass_of(searchers[0], step)
    say(found)
    if rank is not None:
        distributed.destroy_process_group()


def _pass_of(searcher: Any, step: GroupStep) -> tuple[float, int]:  # noqa: ANN401 -- any kind of searcher
    """Return the CPU seconds of a forward and backward pass, and the number of weights."""
    weights = {name: tensor.detach().requires_grad_() for name, tensor in searcher.learner.w.items()}
    images = make_batches(step)[1]

    def take() -> float:
        start = time.process_time()
        loss = searcher.relaxed(weights, searcher.learner.architecture, images).logsumexp(dim=-1).sum()
        torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
        return time.process_time() - start

    take()
    return median(take() for _ in range(3)), sum(tensor.numel() for tensor in weights.values())


if __name__ == "__main__":
    main(sys.argv[1])
