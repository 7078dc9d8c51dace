"""`smallgroup bench` on the twin device: both forms are computed there, agree, and are waited for."""

import json
from typing import Any

import pytest
import torch

from smallgroup.bench import memory, one_peak, one_row, operations
from smallgroup.bench.machine import measuring_on
from smallgroup.bench.operation import MeasuredOperation
from smallgroup.bench.paths import fast_path
from smallgroup.bench.timing import alternate
from smallgroup.cli import bench_display, main
from smallgroup.testing import TwinDevice

SIZES = {"channels": 4, "cells": 3, "batch": 3, "size": 8}
GROUP = {**SIZES, "cells_per_stage": 1, "space": "nas-bench-201"}


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("GroupStep", {**GROUP, "hypergradient": "finite-difference"}), ("NetworkStep", SIZES)],
)
def test_both_forms_of_a_step_agree_with_the_cpu(
    kind: str, sizes: dict[str, Any], twin: TwinDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(one_row, "say", said.append)
    monkeypatch.setattr(one_row, "keep_memory", lambda: None)
    steps = [{"kind": kind, "path": path, "sizes": sizes} for path in ("plain", "torch")]
    first = []
    for device in ("cpu", str(twin.device)):
        with twin.counted() as traffic:
            one_row.main(json.dumps({"steps": steps, "rounds": 1, "threads": 1, "device": device}))
        first += [torch.tensor(one["first"]) for one in said[-1]["measured"]]
        assert (traffic.launches.total() > 0) == (device != "cpu")
    assert all(torch.allclose(one, first[0], rtol=1e-4) for one in first)


def test_a_turn_ends_when_the_device_has_finished(twin: TwinDevice) -> None:
    x = torch.ones(3, device=twin.device)
    with twin.counted() as traffic, measuring_on(twin.device):
        found = alternate({"a": lambda: [x * 2]}, 2, least=0.0)
    assert sum("runtime/device.py" in place for place in traffic.reads.elements()) == 3  # one warms up
    assert len(found["a"].seconds) == 2


def test_an_operation_is_measured_there(twin: TwinDevice) -> None:
    cases = [
        MeasuredOperation(space="darts", operation=name, stride=2, channels=4, batch=2, size=6)
        for name in ("sep_conv_3x3", "skip_connect", "avg_pool_3x3")
    ]
    with twin.counted() as traffic, measuring_on(twin.device):
        rows = operations.measure(cases, fast_path(), 1, least=1e-6)
    assert traffic.launches["convolution"] > 0
    assert all(row.difference < 1e-4 and row.path == "torch" for row in rows)


def test_the_memory_of_a_device_is_what_torch_counts(twin: TwinDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    with measuring_on(twin.device), pytest.raises(ValueError, match="whose memory torch counts, cpu or cuda, but got"):
        memory.measure([], "torch")
    said: list[Any] = []
    monkeypatch.setattr(one_peak, "say", said.append)
    monkeypatch.setattr(one_peak, "keep_memory", lambda: None)
    monkeypatch.setattr(one_peak, "memory_held", lambda _: 300)
    monkeypatch.setattr(one_peak, "peak_memory_on", lambda _: 1000)
    asked = {"case": {**GROUP, "learners": 1}, "path": "torch", "threads": 1, "steps": 1, "device": str(twin.device)}
    one_peak.main(json.dumps(asked))
    assert said == [{"bytes": 700}]


def test_a_device_is_chosen_for_a_measurement(
    twin: TwinDevice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_display, "choose_device", lambda name: {"auto": twin.device}[name])
    given = ["bench", "scaling", "--space", "nas-bench-201", "--over", "batch", "--rounds", "1", "--threads", "1"]
    given += ["--channels", "2", "--cells-per-stage", "1", "--batch", "2", "--size", "4"]
    with twin.counted() as traffic:
        assert main([*given, "--json"]) == 0
    assert traffic.launches["convolution"] > 0
    assert json.loads(capsys.readouterr().out)["device"] == "lazy"
    assert main([*given, "--path", "native"]) != 0
    assert "--path native needs the CPU, but the device is lazy:0" in capsys.readouterr().err
