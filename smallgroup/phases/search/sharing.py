"""Learners of a search that other processes compute: between two steps, their state as it is there."""

import json
from collections.abc import Mapping, Sequence

import torch
from safetensors.torch import load, save
from torch import Tensor

from smallgroup.group import Exchange, LocalExchange
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.search.metrics import EpochMetrics

SUMS = "sums"


def share_learners(exchange: Exchange, searchers: Sequence[Searcher], metrics: EpochMetrics) -> None:
    """Make every learner here what it is in the process that computes it, and what was counted of it too.

    All processes must call it between the same two steps. The end of an epoch and a checkpoint need all learners.
    """
    if isinstance(exchange, LocalExchange):
        return
    try:
        counted = metrics.state()
        own = {k: [_packed(searchers[k].state(), counted[k])] for k in exchange.mine}
        for k, tables in enumerate(exchange.tables(own)):
            if k not in exchange.mine and tables is not None:
                state, counted[k] = _unpacked(tables[0])
                searchers[k].load_state(state)
        metrics.load_state(counted)
        exchange.agree(None)
    except BaseException as error:
        exchange.agree(error)
        raise


def _packed(state: Mapping[str, Tensor], sums: Mapping[str, Sequence[float]]) -> Tensor:
    """Return the state and the sums of a learner as bytes."""
    tensors = {
        f".{name}": tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in state.items()
    }
    tensors[SUMS] = torch.frombuffer(bytearray(json.dumps(dict(sums)).encode()), dtype=torch.uint8)
    return torch.frombuffer(bytearray(save(tensors)), dtype=torch.uint8)


def _unpacked(packed: Tensor) -> tuple[dict[str, Tensor], dict[str, list[float]]]:
    tensors = load(packed.cpu().numpy().tobytes())
    sums = json.loads(tensors.pop(SUMS).numpy().tobytes())
    return {name.removeprefix("."): tensor for name, tensor in tensors.items()}, sums
