"""What runs leave behind: what two of them differ in, and how far one has come that was killed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from smallgroup.runner import CHECKPOINTS
from smallgroup.runtime.checkpoints import Checkpoints

PASSING = ("seconds", "peak_memory_mb")
"""In a result, what is another time by time."""
NOT_COMPARED, BY_NAME = (".lock", "times.jsonl"), ("report.html",)
"""Files that say how long things took, or who did them; of the latter it counts whether they are there."""
RESULT = "result.json"


def differences(left: Path, right: Path) -> list[str]:
    """What the finished runs below two folders differ in, apart from the time and memory they took."""
    ours, theirs = _files(left), _files(right)
    found = [f"{name} is there once" for name in sorted(ours.keys() ^ theirs.keys())]
    found += [name for name in sorted(ours.keys() & theirs.keys()) if _content(ours[name]) != _content(theirs[name])]
    if not any(Path(name).name == RESULT for name in ours):
        found.append(f"no {RESULT}")
    folders = [{path.parent.relative_to(top) for path in _places(top)} for top in (left, right)]
    for run in sorted(folders[0] & folders[1]):
        found += [str(run / name) for name in _different_tensors(left / run, right / run)]
    return found


def _files(top: Path) -> dict[str, Path]:
    """By name below `top`, those that must be the same; `workers` are the logs of a study."""
    return {
        str(path.relative_to(top)): path
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.name not in NOT_COMPARED and not {CHECKPOINTS, "workers"} & set(path.parts)
    }


def _content(path: Path) -> Any:
    if path.name != RESULT:
        return None if path.name in BY_NAME else path.read_bytes()
    try:
        result = json.loads(path.read_bytes())
    except ValueError:
        return path.read_bytes()
    return _lasting(result)


def _lasting(value: Any) -> Any:
    """The same without what passes, also inside of it: a play-off has seconds of its own."""
    if isinstance(value, dict):
        return {key: _lasting(inner) for key, inner in value.items() if key not in PASSING}
    return [_lasting(inner) for inner in value] if isinstance(value, list) else value


def _different_tensors(left: Path, right: Path) -> list[str]:
    states = [Checkpoints(folder / CHECKPOINTS).newest() for folder in (left, right)]
    tensors = [{} if state is None else state.tensors for state in states]
    if not tensors[0] or tensors[0].keys() != tensors[1].keys():
        return ["the names of tensors"]
    return [name for name, tensor in tensors[0].items() if not torch.equal(tensor, tensors[1][name])]


def _places(top: Path) -> Iterator[Path]:
    """The folders of checkpoints below a folder; they may be written to while we look."""
    for here, folders, _ in os.walk(top):
        if CHECKPOINTS in folders:
            folders.remove(CHECKPOINTS)
            yield Path(here) / CHECKPOINTS


def newest(top: Path) -> dict[str, int]:
    """By run below a folder, the step of its newest checkpoint: whole or not, which is for others to find out."""
    found = {}
    for place in _places(top):
        try:
            steps = [int(path.name) for path in place.iterdir() if path.name.isdigit()]
        except FileNotFoundError:  # moved or removed while we look
            continue
        if steps:
            found[str(place.parent.relative_to(top))] = max(steps)
    return found


def durable(top: Path) -> dict[str, int]:
    """By run below a folder, the step of the newest checkpoint that can be taken up."""
    found = {}
    for place in _places(top):
        checkpoint = Checkpoints(place).newest()
        if checkpoint is not None:
            found[str(place.parent.relative_to(top))] = checkpoint.step
    return found
