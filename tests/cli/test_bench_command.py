"""`smallgroup bench` through the command line: documents, tables, and how it fails."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from smallgroup.bench import memory, one_row, step
from smallgroup.bench.child import Told
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.plans import StepPlan
from smallgroup.cli import main

Captured = pytest.CaptureFixture[str]
SMALL = ["--channels", "4", "--cells-per-stage", "1", "--batch", "3", "--size", "8"]
HERE = ["--path", "torch", "--threads", "1"]
TINY = [*SMALL, *HERE]
SPACE = ["--space", "nas-bench-201"]


@pytest.fixture
def measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are measured in this process: one of their own takes longer to start than tiny rows take to measure."""

    def here(_module: str, asked: Mapping[str, Any], _what: str, told: Told | None = None) -> Mapping[str, Any]:
        said: list[Mapping[str, Any]] = []
        with monkeypatch.context() as changed:
            changed.setattr(one_row, "say", lambda document: said.append(json.loads(json.dumps(document))))
            changed.setattr(one_row, "keep_memory", lambda: None)
            one_row.main(json.dumps(asked))
        *turns, last = said
        for turn in turns:
            if told is not None:
                told(turn)
        return last

    monkeypatch.setattr(one_row, "in_a_process", here)


def document(capsys: Captured, *arguments: str) -> Any:
    assert main(["bench", *arguments, "--json"]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    found = json.loads(out)
    assert found["threads"] == 1
    assert found["torch"] == torch.__version__
    assert found["path"] == "torch"
    assert found["device"] == "cpu"
    assert isinstance(found["cpu"], str)
    assert all({"name", "path", "batch", "channels", "size"} <= row.keys() for row in found["rows"])
    return found


def table(capsys: Captured, *arguments: str) -> str:
    assert main(["bench", *arguments]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert out.startswith(f"1 thread, torch {torch.__version__}, ")
    assert "\npath torch" in out
    return out


@pytest.mark.usefixtures("measured_here")
def test_step(capsys: Captured) -> None:
    given = ["step", *TINY, *SPACE, "--learners", "1", "--learners", "2", "--rounds", "2"]
    found = document(capsys, *given)
    assert [row["learners"] for row in found["rows"]] == [1, 2]
    for row in found["rows"]:
        assert row["ratio"] == row["plain_seconds"] / row["fast_seconds"] > 0
        assert row["spread"][0] <= row["spread"][1]
        assert (row["space"], row["method"], row["hypergradient"]) == ("nas-bench-201", "darts", "first-order")
        assert row["relative"] == row["fast_seconds"] / found["rows"][0]["fast_seconds"]
    (growth,) = found["growth"]
    assert growth["learners"] == [1, 2]
    assert growth["ratio"] == growth["seconds"][1] / growth["seconds"][0]
    assert found["rounds"] == 2


@pytest.mark.usefixtures("measured_here")
def test_step_as_a_table(capsys: Captured) -> None:
    out = table(capsys, "step", *TINY, *SPACE, "--learners", "1", "--method", "gdas", "--rounds", "1")
    assert "median of 1 round\n" in out
    assert "gdas in nas-bench-201, C=4, N=1" in out
    assert "plain / fast" in out


def test_ops(capsys: Captured) -> None:
    given = ["ops", "--quick", "--channels", "4", "--batch", "2", "--size", "5", "--rounds", "1", *HERE]
    found = document(capsys, *given)
    names = [row["name"] for row in found["rows"]]
    assert "darts, dil_conv_5x5, stride 2" in names
    assert "nas-bench-201, nor_conv_3x3, stride 1" in names
    assert all(row["ratio"] == row["plain_seconds"] / row["fast_seconds"] for row in found["rows"])
    assert "dil_conv_5x5" in table(capsys, *given)


def test_scaling(capsys: Captured) -> None:
    given = ["scaling", *TINY, *SPACE, "--over", "batch", "--rounds", "1"]
    found = document(capsys, *given)
    assert [row["value"] for row in found["rows"]] == [row["batch"] for row in found["rows"]] == [3, 6, 9, 12]
    assert found["exponents"].keys() == {"batch"}
    assert found["exponents"]["batch"].keys() == {"exponent", "deviation", "smallest"}
    out = table(capsys, *given)
    assert "from: darts in nas-bench-201, C=4, N=1, batch 3, 8x8, K=2, first-order" in out
    assert "batch = 12" in out


@pytest.mark.slow  # two processes that load torch
def test_memory(capsys: Captured) -> None:
    found = document(capsys, "memory", *TINY, *SPACE, "--learners", "1")
    (row,) = found["rows"]
    assert row["ratio"] == row["fast_bytes"] / row["plain_bytes"]
    assert 2**10 < row["plain_bytes"] < 2**30


def test_a_process_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(RuntimeError, match=r"measures darts in .* on path plain failed: it ended with code 1"):
        memory.measure([GroupStep()], "torch")
    with pytest.raises(RuntimeError, match=r"measures darts in .* failed: it ended with code 1"):
        step.measure(StepPlan([GroupStep()]), "torch", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["step", "--batch", "0"], "batch >= 1 must hold, but got batch=0"),
        (["step", "--batch", "many"], "a whole number is needed, but got 'many'"),
        (["step", "--learners", "two"], "a whole number is needed, but got 'two'"),
        (["step", "--rounds", "0"], "rounds >= 1 must hold, but got rounds=0"),
        (["step", "--threads", "0"], "threads >= 1 must hold, but got threads=0"),
        (["step", "--path", "gpu"], "path must be one of auto, torch, native, but got 'gpu'"),
        (["step", "--space", "robust"], "but got 'robust'; did you mean robust-s"),
        (["step", "--method", "p-darts", *SPACE, *TINY], "p-darts makes the network deeper"),
        (["scaling", "--over", "depth"], "over must be one of learners, batch, cells, channels, but got 'depth'"),
        (["scaling", "--hypergradient", "second"], "hypergradient must be one of"),
        (["ops", "--channels", "3", "--batch", "2", "--size", "4", "--path", "torch"], "channels must be even"),
        (["memory", "--learners", "0"], "learners >= 1 must hold"),
        (["scaling", "--over", "channels", "--channels", "1100"], "channels <= 4,096 must hold, but got channels=4400"),
        (["speed"], "No such command 'speed'"),
    ],
)
def test_bad_input(capsys: Captured, arguments: list[str], message: str) -> None:
    assert main(["bench", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def test_a_path_this_machine_does_not_have(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smallgroup.kernels.available", lambda: ("plain", "torch"))
    assert main(["bench", "ops", "--path", "native"]) == 2
    assert "path must be one of auto, torch on this machine, but got 'native'" in capsys.readouterr().err


def test_without_a_command_it_says_which_there_are(capsys: Captured) -> None:
    assert main(["bench"]) == 0
    out, _ = capsys.readouterr()
    assert all(name in out for name in ("step", "ops", "scaling", "memory"))


def test_files_against_shards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "shards", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["rows"]] == ["folder", "jpeg shards", "ppm shards"]
    assert (found["images"], found["rounds"]) == (12, 2)
    assert all(row["images_per_second"] > 0 for row in found["rows"])
    assert found["rows"][2]["bytes_per_image"] == pytest.approx(341 * 256 * 3, abs=20)


@pytest.mark.slow  # three rounds of three processes
def test_learners_on_ranks_against_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "distributed", "--quick", "--space", "nas-bench-201", "--rounds", "1"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["received"] == found["model"]["received"] > 0
    assert found["model"]["ratio"] == 2
    assert 1 < found["ratio"] < 2.5
    assert found["local_exchange_share"] < 0.01
    assert main(["bench", "distributed", "--ranks", "1"]) == 2
    assert "ranks must be at least 2, but got 1" in capsys.readouterr().err
