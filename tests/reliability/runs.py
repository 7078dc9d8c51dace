"""Small runs by the command, for tests that damage, move and resume them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from smallgroup.cli import main
from tests.tools.chaos import differences

Captured = pytest.CaptureFixture[str]
SEARCH = [
    "search",
    "--learners=1",
    "--data-root=nowhere",
    "--hypergradient=first-order",
    "--set=space.channels=2",
    "--set=data.labeled_fraction=0.1",
    "--set=search.epochs=2",
    "--set=search.steps_per_epoch=3",
    "--set=search.batch_size={train: 8, unlabeled: 8, validation: 8}",
    "--set=run.checkpoint_minutes=0",
]


def refused(capsys: Captured, *arguments: str, code: int = 2) -> str:
    """The one line of a refusal."""
    capsys.readouterr()
    assert main(arguments) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ")
    assert not any("Traceback" in line for line in lines)
    return lines[-1]


def resumed(folder: Path, capsys: Captured, *arguments: str) -> str:
    """Resume a run to its end, and give what it said."""
    capsys.readouterr()
    code, said = main(["search", "--out", str(folder), "--resume", *arguments]), capsys.readouterr().err
    assert code == 0, said
    return said


def same(left: Path, right: Path) -> bool:
    return differences(left, right) == []


def copied(finished: Path, place: Path) -> Path:
    """A copy of a finished run whose end is taken back: there is something to resume."""
    shutil.copytree(finished, place)
    (place / "result.json").unlink()
    return place


Damage = Callable[[Path], object]
