"""Contenders that take turns in a process that does nothing else: `python -m smallgroup.bench.one_row JSON`.

Prints a line before every turn, and at the end the seconds of all of them.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from smallgroup.bench.cases import prepared
from smallgroup.bench.child import in_a_process, read_asked, say
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.machine import measuring_on
from smallgroup.bench.network_step import NetworkStep
from smallgroup.bench.paths import PLAIN
from smallgroup.bench.timing import Call, MeasuredTurns, Turn, TurnWatch, alternate
from smallgroup.runtime.allocator import keep_memory
from smallgroup.runtime.device import current

AnyStep = GroupStep | NetworkStep
Contender = tuple[AnyStep, str]
"""A step, and on which path."""
_KINDS: dict[str, type[AnyStep]] = {kind.__name__: kind for kind in (GroupStep, NetworkStep)}


def measured(contenders: list[Contender], rounds: int, watch: TurnWatch | None = None) -> list[MeasuredTurns]:
    """Return the seconds of each contender's turns, measured in a process of their own."""
    asked = {
        "steps": [{"kind": type(step).__name__, "path": path, "sizes": asdict(step)} for step, path in contenders],
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "device": str(current()),
    }
    found = in_a_process(
        __name__,
        asked,
        contenders[0][0].name,
        None if watch is None else lambda document: watch(Turn(*document["turn"])),
    )
    return [
        MeasuredTurns(
            tuple(one["seconds"]),
            [None if first is None else torch.tensor(first) for first in one["first"]],
            tuple(one["cpu_seconds"]),
        )
        for one in found["measured"]
    ]


def main(text: str) -> None:
    """Read what to do, do it, say what came of it."""
    asked = read_asked(text)
    keep_memory()  # as runs do; it serves all contenders
    torch.set_num_threads(asked["threads"])
    with measuring_on(torch.device(asked["device"])):
        _measure(asked)


def _measure(asked: Mapping[str, Any]) -> None:
    try:
        calls = {f"{step['path']} {number}": _call(step) for number, step in enumerate(asked["steps"])}
        names = [_KINDS[step["kind"]](**step["sizes"]).name for step in asked["steps"]]
        titles = {
            key: f"{name}, {PLAIN if step['path'] == PLAIN else 'fast'}"
            for key, name, step in zip(calls, names, asked["steps"], strict=True)
        }
        found = alternate(
            calls, asked["rounds"], watch=lambda turn: say({"turn": turn._replace(name=titles[turn.name])})
        )
    except ValueError as error:  # about what was asked for, as it is told to who did
        say({"error": str(error)})
        return
    measured_here = [
        {"seconds": one.seconds, "cpu_seconds": one.cpu_seconds, "first": [_list(t) for t in one.first]}
        for one in found.values()
    ]
    say({"measured": measured_here})


def _call(step: dict[str, Any]) -> Call:
    case = _KINDS[step["kind"]](**step["sizes"])
    return prepared(case.plain if step["path"] == PLAIN else case.fast, step["path"])


def _list(tensor: Tensor | None) -> Any:  # noqa: ANN401
    """Return a number as it is, and a tensor as a list."""
    return None if tensor is None else tensor.double().tolist()


if __name__ == "__main__":
    main(sys.argv[1])
