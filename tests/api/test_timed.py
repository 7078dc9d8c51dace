"""Time budgets of searches and trainings in Python: a new run gets a size that fits, a begun one keeps its own."""

from pathlib import Path
from typing import Any

import pytest

import smallgroup
from smallgroup import fitting
from smallgroup.config import load_own
from smallgroup.phases.search.timing import Part, StepTimes
from smallgroup.phases.training import TrainingJob
from smallgroup.runtime import budget
from tests.api.test_api import QUICK

CELL = "|nor_conv_1x1~0|+|none~0|nor_conv_1x1~1|+|none~0|none~1|skip_connect~2|"
TRAINING: dict[str, Any] = {
    "data": {"labeled_fraction": 0.1},
    "training": {"epochs": 50, "batch_size": 16, "least_steps": None, "validation": 0.0, "network": {"channels": 2}},
}


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still, and a step takes a second."""
    monkeypatch.setitem(budget.CLOCKS, "cpu", lambda: 5.0)
    seconds: dict[Part, float] = {(kind, (0, 0)): 1.0 for kind in ("labelers", "weights", "all")}
    monkeypatch.setattr(fitting, "measure", lambda *_: StepTimes({**seconds, ("end", (0, 0)): 0.5}))
    monkeypatch.setattr(TrainingJob, "measure", lambda *_, **__: 1.0)


@pytest.mark.usefixtures("still")
def test_a_search_fits_and_keeps_its_size(tmp_path: Path) -> None:
    measured: list[str] = []
    keys: dict[str, Any] = {
        "out": tmp_path / "run",
        "clock": "cpu",
        "progress": False,
        "measuring": lambda: measured.append("now"),
    }
    asked = {**QUICK, "search": {**QUICK["search"], "epochs": 8}}  # 28 seconds
    found = smallgroup.search(asked, seconds=20.0, **keys)
    assert found.steps == 15  # in 17.5 of the 18.6 seconds that are shared out
    again = smallgroup.search(asked, seconds=100.0, resume=True, **keys)
    assert again.to_dict() == found.to_dict()
    assert measured == ["now"]
    with pytest.raises(ValueError, match="0 < seconds < infinity must hold, but got seconds=0"):
        smallgroup.search(QUICK, seconds=0)
    with pytest.raises(ValueError, match="clock must be one of wall, cpu, but got 'sun'"):
        smallgroup.search(QUICK, seconds=1.0, clock="sun")  # type: ignore[arg-type]


@pytest.mark.usefixtures("still")
def test_a_training_fits_and_keeps_its_size(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"out": tmp_path / "run", "clock": "cpu", "progress": False}
    found = smallgroup.train(CELL, TRAINING, seconds=40.0, **keys)
    own = load_own(tmp_path / "run" / "config.yaml")["training"]
    assert found.steps == own["epochs"] * own["steps_per_epoch"]
    assert 10 < found.steps <= 37  # the look at the test images takes the rest
    again = smallgroup.train(CELL, TRAINING, seconds=1000.0, resume=True, **keys)
    assert again.steps == found.steps
    assert smallgroup.train(CELL, resume=True, **keys).steps == found.steps  # with its own config
