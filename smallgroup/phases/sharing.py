"""What processes that compute different learners give each other between two steps: states and rows of metrics."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from smallgroup.group import Exchange, LocalExchange
from smallgroup.runtime.tensor_files import tensor_bytes, tensors_of

LearnerState = tuple[Mapping[str, Tensor], Mapping[str, Any]]
"""Tensors by name, and what JSON can hold."""


@contextmanager
def meeting(exchange: Exchange) -> Iterator[None]:
    """End what is done inside in all processes, or in none: one that fails tells the others."""
    try:
        yield
        exchange.agree(None)
    except BaseException as error:
        exchange.agree(error)
        raise


@contextmanager
def telling(exchange: Exchange) -> Iterator[None]:
    """Tell the others of a failure before they meet again; without one they are told nothing."""
    try:
        yield
    except BaseException as error:
        exchange.agree(error)
        raise


def share_states(exchange: Exchange, state_of: Callable[[int], LearnerState]) -> dict[int, LearnerState]:
    """Return the states of all learners that are not computed here, given those that are."""
    if isinstance(exchange, LocalExchange):
        return {}
    with meeting(exchange):
        own = {k: [_packed(state_of(k))] for k in exchange.mine}
        found = exchange.tables(own)
        return {k: _unpacked(tables[0]) for k, tables in enumerate(found) if k not in own and tables is not None}


def share_rows(exchange: Exchange, row_of: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per learner; each is made by the process that computes the learner."""
    with meeting(exchange):
        own = {k: row_of(k) for k in exchange.mine}
        if isinstance(exchange, LocalExchange):
            return list(own.values())
        found = exchange.tables({k: [_as_tensor(json.dumps(row).encode())] for k, row in own.items()})
        return [own[k] if k in own else _row(tables) for k, tables in enumerate(found)]


def _row(tables: Any) -> dict[str, Any]:  # noqa: ANN401 -- what came from another process
    return dict(json.loads(_as_bytes(tables[0])))


def _packed(state: LearnerState) -> Tensor:
    """Return a state as bytes: the length of the record, the record, the tensors."""
    tensors, record = state
    text = json.dumps(dict(record)).encode()
    return _as_tensor(len(text).to_bytes(8, "little") + text + tensor_bytes(tensors))


def _unpacked(packed: Tensor) -> LearnerState:
    content = _as_bytes(packed)
    end = 8 + int.from_bytes(content[:8], "little")
    return tensors_of(content[end:]), json.loads(content[8:end])


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _as_bytes(tensor: Tensor) -> bytes:
    return bytes(tensor.cpu().numpy().tobytes())
