"""Outcomes as files: one for each unit, whole or not there."""

import json
from pathlib import Path

from pydantic import TypeAdapter

from smallgroup.bench.outcome.arms import ArmOutcome
from smallgroup.bench.outcome.plan import Unit
from smallgroup.runtime.files import read_regular, write_whole

_OUTCOME = TypeAdapter(ArmOutcome)
LARGEST = 100_000
"""Most bytes of an outcome file that is read."""


def read(folder: Path, unit: Unit) -> ArmOutcome | None:
    """Return the outcome of a unit; None if it is not there yet."""
    path = folder / unit.name
    try:
        found = _OUTCOME.validate_json(read_regular(path, LARGEST))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ValueError(f"{path} must hold an outcome, but it does not; remove it to measure that again") from None
    if (found.arm, found.task, found.seed) != (unit.arm, unit.task.name, unit.seed):
        raise ValueError(f"{path} must hold the outcome of {unit.arm} with seed {unit.seed}, but it holds another")
    return found


def write(folder: Path, unit: Unit, outcome: ArmOutcome) -> None:
    """Write an outcome to its file."""
    path = folder / unit.name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(outcome.to_dict(), indent=2) + "\n")
