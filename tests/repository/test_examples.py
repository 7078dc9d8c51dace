"""The examples run, and print what they promise. Their numbers are theirs: nothing is asserted of them."""

import importlib
import json
import math
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch.nn import functional

ROOT = Path(__file__).parents[2]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
"""Two threads on tiny networks mostly wait for one another."""


def run_example(name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_classifiers() -> None:
    lines = run_example("three_classifiers.py", "3", "2").splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["seed 0", "seed 1", "seed 2"]
    assert lines[4].startswith("Test error in percent over 3 seeds of 2 steps")
    rows = {line[:50].rstrip(): re.findall(r"\d+\.\d+", line[50:]) for line in lines[5:]}
    assert [name.split(":")[0] for name in rows] == ["alone", "independent", "group", "group, mean of the three"]
    for mean, deviation, low, high in rows.values():
        assert 0 <= float(low) <= float(mean) <= float(high) <= 100
        assert float(deviation) >= 0
    # The seeds differ, and so do the ways of learning.
    assert len({line.split("group")[1] for line in lines[:3]}) > 1
    assert rows["group, mean of the three"] != rows["alone: one learner by itself, mean of the three"]


@pytest.mark.slow
def test_finite_difference_radius(tmp_path: Path) -> None:
    figure, measured = tmp_path / "figure.svg", tmp_path / "measured.json"
    output = run_example("finite_difference_radius.py", "--quick", "--figure", str(figure), "--json", str(measured))
    assert "ReLU + max pooling, at initialization" in output
    assert "softplus + average pooling, after 3 steps" in output
    assert figure.read_text().startswith("<?xml")
    found = json.loads(measured.read_text())
    # 2 networks x 2 times x (2 dtypes x 3 radii + exact in float32) x 2 learners x 3 terms, all of them numbers.
    assert len(found) == 2 * 2 * 7 * 2 * 3
    assert all(math.isfinite(m["error"]) and -1.000001 <= m["cosine"] <= 1.000001 for m in found)
    assert {m["radius"] for m in found} == {None, 1e-4, 0.01, 1.0}


def test_search_by_hand() -> None:
    output = run_example("search_by_hand.py", "--steps", "2", "--channels", "2", "--batch", "16", "--method", "gdas")
    assert re.search(r"^step    1   learner 0: V \d.*learner 1: V \d", output, re.MULTILINE)
    assert output.count("the cell of learner") == 2
    assert "s per step (median of 2)" in output


@pytest.mark.parametrize("name", ["regression.py", "segmentation.py", "sequence_labeling.py"])
def test_other_tasks(name: str) -> None:
    assert len((ROOT / "examples" / name).read_text().splitlines()) < 80
    output = run_example(name, "3", "1")
    lines = output.splitlines()
    assert (
        len([line for line in lines if re.match(r"seed \d: alone [\d.]+, independent [\d.]+, group [\d.]+", line)]) == 3
    )
    title = next(i for i, line in enumerate(lines) if "over 3 seeds of 1 steps: mean +- standard deviation" in line)
    rows = {line[:48].rstrip(): [float(n) for n in re.findall(r"-?\d+\.\d+", line[48:])] for line in lines[title + 1 :]}
    assert [row.split(":")[0] for row in rows][:3] == ["alone", "independent", "group"]
    for mean, deviation, low, high in rows.values():
        assert low - 1e-3 <= mean <= high + 1e-3
        assert deviation >= 0
    assert rows["group, mean of all"] != rows["alone: one learner by itself, mean of all"]


@pytest.mark.parametrize(
    ("name", "network"), [("regression", "Perceptron"), ("segmentation", "UNet"), ("sequence_labeling", "Tagger")]
)
def test_errors_of_other_tasks_are_measured_without_dropout(
    name: str, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks that drop half of their outputs in training mode have the same errors as those that do not."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    example: Any = importlib.import_module(name)
    monkeypatch.setattr(example, "find_spec", lambda _: None, raising=False)
    kind = getattr(example, network)

    class Dropping(kind):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: Any, **named: Any) -> Tensor:
            return functional.dropout(super().forward(*inputs, **named), 0.5, self.training)

    expected = example.measure(0, 1.0, 0)
    monkeypatch.setattr(example, network, Dropping)
    assert example.measure(0, 1.0, 0) == expected


@pytest.mark.skipif(find_spec("transformers") is None, reason="the package transformers is not installed")
def test_a_module_of_transformers_is_a_learner() -> None:
    assert run_example("sequence_labeling.py", "1", "1").startswith("second learner: BERT of transformers\n")


def test_other_libraries() -> None:
    """Those that are installed have the same gradient, but for betty's default, which approximates another one."""
    lines = run_example("other_libraries.py", "1").splitlines()[1:]
    rows = {line[:38].rstrip(): line[38:].split() for line in lines}
    assert [name.split(",")[0] for name in rows] == ["smallgroup", "smallgroup", "higher", "torchopt", "betty", "betty"]
    assert rows["smallgroup, exact"][:4] == ["0.0e+00", "9F", "+", "8B"]
    assert rows["smallgroup, finite-difference"][1:4] == ["12F", "+", "11B"]
    for name, (gap, *_) in rows.items():
        if find_spec(name.split(",")[0]) and "default" not in name:
            assert float(gap) < 1e-5
