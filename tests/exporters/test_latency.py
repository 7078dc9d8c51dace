"""Latency: what is timed, that it is measured once, and that a run keeps it."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import smallgroup
from smallgroup.api import training
from smallgroup.cli import main
from smallgroup.exporters import latency
from smallgroup.exporters.latency import WARM_UP, measure, medians
from smallgroup.phases.training.latency import FILE, read_latencies
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import dumps
from tests.phases.training.models import BENCHMARK

KEYS = {
    "dataset": "digits",
    "training": {"epochs": 1, "steps_per_epoch": 2, "batch_size": 16, "network": {"channels": 8, "cells_per_stage": 1}},
}


def test_runs_take_turns_and_the_median_counts() -> None:
    """A clock that the calls move: one of them is slow once, which a mean would show."""
    now, order = 0.0, []

    def call(name: str, seconds: float) -> object:
        nonlocal now
        order.append(name)
        now += 50.0 if len(order) == 2 * WARM_UP + 5 else seconds
        return None

    found = medians([lambda: call("a", 0.25), lambda: call("b", 0.5)], lambda: now)
    assert found == [250.0, 500.0]
    assert order == ["a", "b"] * (len(order) // 2)


def test_a_larger_network_takes_longer() -> None:
    network = NetworkConfig(channels=2, cells_per_stage=1)
    designs = [
        network.model_copy(update={"channels": channels}).design(ImageSpec(10, 1, 32), "nas-bench-201")
        for channels in (32, 2)
    ]
    large, small = measure([(BENCHMARK, design) for design in designs])
    assert large > small > 0


def test_it_is_measured_once_recorded_and_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []

    def of_width(networks: Sequence[tuple[Genotype, NetworkDesign]]) -> list[float]:
        widths.extend(design.channels for _, design in networks)
        return [0.5 * design.channels for _, design in networks]

    monkeypatch.setattr(training, "measure", of_width)
    limited = {**KEYS, "training": {**KEYS["training"], "max_latency_ms": 2.6}}  # type: ignore[dict-item]
    run = tmp_path / "run"
    result = smallgroup.train(dumps(BENCHMARK), limited, out=run, progress=False)
    assert result.choice is not None
    assert result.choice.startswith("channels=5 and cells_per_stage=1 fit 2.6 ms of latency")
    assert result.choice.endswith(" and 2.5 ms of latency")
    assert sorted(read_latencies(run).values()) == sorted(0.5 * width for width in widths)

    def again(_: object) -> list[float]:
        raise AssertionError("a resumed run measures nothing")

    monkeypatch.setattr(training, "measure", again)
    (run / "result.json").unlink()  # not finished: everything is compared and concluded once more
    assert smallgroup.train(dumps(BENCHMARK), limited, out=run, progress=False, resume=True).choice == result.choice
    (run / FILE).write_text('{"milliseconds": {"a": "fast"}}')
    with pytest.raises(ValueError, match=r"latency.json must hold latencies, but it does not"):
        smallgroup.train(dumps(BENCHMARK), limited, out=run, progress=False, resume=True)


def test_without_onnxruntime_a_limit_on_latency_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "smallgroup.exporters.exporter.find_spec", lambda name: None if name == "onnxruntime" else real(name)
    )
    for command in (["train", dumps(BENCHMARK)], ["run"]):
        assert main([*command, "--max-latency-ms", "5", "--out", str(tmp_path / "run")]) == 1
        assert capsys.readouterr().err == (
            "error: --max-latency-ms is measured with the package onnxruntime, which is not installed: pip install "
            "'smallgroup[onnx]'\n"
        )
    assert list(tmp_path.iterdir()) == []


def test_describe_measures_where_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "smallgroup.cli.describe.measure", lambda networks: [3.25 * (k + 1) for k in range(len(networks))]
    )
    text = dumps(BENCHMARK)
    assert main(["describe", text, text, "--latency", "--json"]) == 0
    assert [one["latency_ms"] for one in json.loads(capsys.readouterr().out)] == [3.25, 6.5]
    assert main(["describe", text, "--latency"]) == 0
    assert "latency        3.25 ms for one image on this machine" in capsys.readouterr().out
    assert main(["describe", text, "--json"]) == 0
    assert "latency_ms" not in capsys.readouterr().out
    assert latency.ROUNDS[0] > WARM_UP
