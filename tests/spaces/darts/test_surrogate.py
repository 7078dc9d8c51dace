"""The surrogate of NAS-Bench-301: against published predictions and trained cells, and what is no surrogate."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

import smallgroup
from smallgroup.spaces.darts import DartsGenotype, Surrogate, plain, truth
from smallgroup.spaces.darts.names import OPERATIONS
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.ground_truth import GroundTruths

needs_data = pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
Pairs = list[tuple[str, int]]


@pytest.fixture(scope="module")
def place() -> Path:
    return Path(os.environ["SMALLGROUP_DATA"]) / "nas-bench-301"


@pytest.fixture(scope="module")
def surrogate(place: Path) -> Surrogate:
    found = Surrogate.find(place.parent)
    assert found is not None
    return found


def genotype(normal: Pairs, reduce: Pairs) -> DartsGenotype:
    concat = [2, 3, 4, 5]
    both = {"normal": [list(edge) for edge in normal], "reduce": [list(edge) for edge in reduce]}
    return plain.from_flat({**both, "normal_concat": concat, "reduce_concat": concat})


def correlation(surrogate: Surrogate, cells: list[DartsGenotype], accuracies: list[float]) -> float:
    predicted = [value for cell in cells if (value := surrogate.predict(cell)) is not None]
    assert len(predicted) == len(cells)
    return float(spearmanr(predicted, accuracies).statistic)


@needs_data
def test_it_ranks_cells_as_the_benchmarks_own_surrogate_does(surrogate: Surrogate, place: Path) -> None:
    official = json.loads((place / "official-predictions.json").read_text())
    names = OPERATIONS[1:]
    cells = [genotype(*([(names[op], source) for source, op in cell] for cell in entry["cell"])) for entry in official]
    assert len(cells) == 725
    assert correlation(surrogate, cells, [entry["predicted"] for entry in official]) >= 0.90


@needs_data
def test_its_correlation_with_trained_cells_is_the_one_that_is_told(surrogate: Surrogate, place: Path) -> None:
    trained = json.loads((place / "trained-214.json").read_text())
    cells = [genotype(entry["normal"], entry["reduce"]) for entry in trained]
    assert len(cells) == 214
    found = correlation(surrogate, cells, [entry["best_test_accuracy"] for entry in trained])
    assert round(found, 2) == truth.SPEARMAN


@needs_data
def test_percentiles_are_those_of_the_sample(surrogate: Surrogate) -> None:
    sample = list(truth.sample())
    accuracies = np.array([surrogate.predict(cell) for cell in sample])
    assert np.median(accuracies) == pytest.approx(94.45, abs=0.02)
    for cell, accuracy in list(zip(sample, accuracies, strict=True))[:20]:
        found = surrogate.prediction(cell)
        assert found is not None
        assert found.accuracy == accuracy
        expected = 100 * np.mean((accuracies < accuracy) + 0.5 * (accuracies == accuracy))
        assert found.percentile == pytest.approx(expected)
    pc_darts = surrogate.prediction(published()["PCDARTS_cifar"])
    assert pc_darts is not None
    assert pc_darts.percentile > 99


@needs_data
def test_it_stands_in_the_metrics_and_results_of_a_search_in_the_darts_space(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "space": {"name": "darts", "channels": 2, "cells": 3},
        "hypergradient": "first-order",
        "search": {"epochs": 1, "steps_per_epoch": 2},
        "data": {"labeled_fraction": 0.1},
    }
    result = smallgroup.search(config, out=tmp_path, progress=False)
    assert result.true_accuracy is not None
    assert list(result.true_accuracy) == list(result.percentile or {}) == ["nas-bench-301"]
    assert all(learner.true_accuracy for learner in result.group)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    kept = [row for row in rows if row["learner"] == result.retained][-1]
    assert kept["true_accuracy"] == result.true_accuracy


def test_the_sample_is_always_the_same_and_uniform() -> None:
    first, second = list(truth.sample()), list(truth.sample())
    assert first == second
    assert len(set(first)) == truth.SAMPLE
    operations = Counter(edge.operation for cell in first for edges in cell.reduce.nodes for edge in edges)
    sources = Counter(tuple(edge.source for edge in cell.normal.nodes[3]) for cell in first)
    assert set(operations) == set(OPERATIONS[1:])
    assert min(operations.values()) > 0.9 * 8 * truth.SAMPLE / 7
    assert len(sources) == 10
    assert min(sources.values()) > 0.8 * truth.SAMPLE / 10


class Session:
    """Stands for a network: notes what it is given, and answers with a constant."""

    def __init__(self, answer: float) -> None:
        self.answer, self.given = answer, np.zeros((0,))

    def run(self, _: None, inputs: dict[str, Any]) -> list[Any]:
        self.given = np.concatenate([inputs["x_cat"][0], inputs["x_cont"][0].astype(np.int32)])
        return [np.array([[self.answer, 1.0]], dtype=np.float32)]


def encoding() -> dict[str, dict[str, int]]:
    """Numbers that say what they stand for: operations 1 to 7, pairs of sources 10 i + j."""
    operations = {"#na#": 0, **{name: i for i, name in enumerate(OPERATIONS) if i}}
    pairs = {"#na#": 0, **{f"{i}_{j}": 10 * i + j for j in range(5) for i in range(j)}}
    names = [f"edge_{cell}_{edge}" for cell in ("normal", "reduce") for edge in range(14)]
    nodes = [f"inputs_node_{cell}_{node}" for cell in ("normal", "reduce") for node in (3, 4, 5)]
    prefix = "NetworkSelectorDatasetInfo_COLON_darts_COLON_"
    return {**{prefix + name: operations for name in names}, **{prefix + name: pairs for name in nodes}}


def with_session(path: Path, answer: float = 90.0) -> tuple[Surrogate, Session]:
    (path / "encoding.json").write_text(json.dumps(encoding()))
    session = Session(answer)
    return Surrogate(session, truth._read_codes(path / "encoding.json")), session


NORMAL: Pairs = [
    ("max_pool_3x3", 1), ("avg_pool_3x3", 0), ("skip_connect", 2), ("sep_conv_3x3", 0),
    ("sep_conv_5x5", 3), ("dil_conv_3x3", 1), ("dil_conv_5x5", 4), ("max_pool_3x3", 3),
]  # fmt: skip
REDUCE: Pairs = [(OPERATIONS[1 + i % 2], i % 2) for i in range(8)]


def test_the_encoding_of_a_cell(tmp_path: Path) -> None:
    surrogate, session = with_session(tmp_path)
    assert surrogate.predict(genotype(NORMAL, REDUCE)) == 90.0
    normal = [2, 1, 4, 0, 3, 0, 6, 0, 5, 0, 0, 0, 1, 7]
    reduce = [1, 2, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0, 0, 0]
    assert session.given.tolist() == [*normal, *reduce, 2, 13, 34, 1, 1, 1, 98]


def test_cells_that_the_benchmark_does_not_have(tmp_path: Path) -> None:
    surrogate, _ = with_session(tmp_path)
    assert surrogate.prediction(published()["NASNet_A"]) is None
    large = [("sep_conv_7x7", source) if i == 3 else (name, source) for i, (name, source) in enumerate(NORMAL)]
    assert surrogate.predict(genotype(large, REDUCE)) is None
    same = [("sep_conv_3x3", 0) for _ in range(8)]
    assert surrogate.predict(genotype(same, REDUCE)) is None
    one_edge = plain.to_plain(genotype(NORMAL, REDUCE))
    one_edge["normal"]["nodes"][1].pop()
    assert surrogate.predict(plain.from_plain(one_edge)) is None


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -1.0, 100.5])
def test_a_prediction_that_is_no_percentage_is_refused(answer: float, tmp_path: Path) -> None:
    surrogate, _ = with_session(tmp_path, answer)
    with pytest.raises(ValueError, match="must predict 0 to 100 percent"):
        surrogate.predict(genotype(NORMAL, REDUCE))


def test_without_files_or_runtime_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Surrogate.find(tmp_path) is None
    assert GroundTruths.find(tmp_path, ["darts", "nas-bench-201"]).of(genotype(NORMAL, REDUCE)) == {}
    folder = tmp_path / "nas-bench-301"
    folder.mkdir()
    (folder / "encoding.json").write_text(json.dumps(encoding()))
    assert Surrogate.find(tmp_path) is None
    (folder / "surrogate.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert Surrogate.find(tmp_path) is None


BAD: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "an input missing": (lambda codes: codes.popitem(), "inputs_node_reduce_5 to numbers from 0 to 99"),
    "no number": (lambda codes: next(iter(codes.values())).update({"skip_connect": True}), "edge_normal_0 to numbers"),
    "a large number": (lambda codes: next(iter(codes.values())).update({"skip_connect": 100}), "edge_normal_0 to"),
    "no code for nothing": (lambda codes: next(iter(codes.values())).pop("#na#"), "a number for #na# in"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_damaged_encoding_is_refused(case: str, tmp_path: Path) -> None:
    change, message = BAD[case]
    codes = json.loads(json.dumps(encoding()))
    change(codes)
    (tmp_path / "encoding.json").write_text(json.dumps(codes))
    with pytest.raises(ValueError, match=message):
        Surrogate.read(tmp_path / "surrogate.onnx", tmp_path / "encoding.json")


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000, '"' + "x" * 1_000_001 + '"'])
def test_an_encoding_that_is_none_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "encoding.json").write_text(content)
    with pytest.raises(ValueError, match=r"encoding\.json must (be JSON|map)"):
        Surrogate.read(tmp_path / "surrogate.onnx", tmp_path / "encoding.json")


def test_a_model_that_is_none_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, codes = tmp_path / "surrogate.onnx", tmp_path / "encoding.json"
    codes.write_text(json.dumps(encoding()))
    model.write_bytes(b"\x08\x07 no model")
    with pytest.raises(ValueError, match=r"surrogate\.onnx must be an ONNX model"):
        Surrogate.read(model, codes)
    monkeypatch.setattr(truth, "LARGEST_MODEL", 5)
    with pytest.raises(ValueError, match="must have at most 5 bytes"):
        Surrogate.read(model, codes)


def test_a_model_with_other_inputs_is_refused(tmp_path: Path) -> None:
    import onnx  # noqa: PLC0415 -- the extra

    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2])
    other = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [value], [other])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    made.ir_version = 8
    (tmp_path / "surrogate.onnx").write_bytes(made.SerializeToString())
    (tmp_path / "encoding.json").write_text(json.dumps(encoding()))
    with pytest.raises(ValueError, match=r"must have the inputs x_cat \[1, 34\]"):
        Surrogate.read(tmp_path / "surrogate.onnx", tmp_path / "encoding.json")
