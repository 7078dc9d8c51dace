"""A format of one's own: what `smallgroup export` does with it, and how it is refused."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from smallgroup.cli import main
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters import EXPORTERS, Exporter, ParityError, export_model, register
from smallgroup.exporters.exporter import Forward
from smallgroup.phases.training import TrainResult
from smallgroup.registry import PluginError

Trained = dict[str, tuple[Path, TrainingData, TrainResult]]
Captured = pytest.CaptureFixture[str]


PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def register_weights() -> type[Exporter]:
    """The format of the page on trainings, as it is written there."""
    *_, block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(block, {"__name__": "their_module"})
    return EXPORTERS["weights"]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    EXPORTERS._registered.clear()


def test_a_format_that_is_registered_is_written_and_checked(trained: Trained, tmp_path: Path, capsys: Captured) -> None:
    register_weights()
    folder, path = trained["nas-bench-201"][0], tmp_path / "x.safetensors"
    assert main(["export", str(folder), "--format", "weights", "--out", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["path"]) == ("weights", str(path))
    assert told["difference"] <= told["tolerance"]
    assert load(path.read_bytes())["classifier.weight"].shape[0] == 10
    assert path.with_name("x.safetensors.md").exists()


def test_a_file_that_computes_something_else_is_not_written(trained: Trained, tmp_path: Path) -> None:
    weights: Any = register_weights()

    @register
    class Zeros(weights):  # type: ignore[misc]
        """It gives zeros."""

        name = "zeros"

        def runs(self, content: bytes) -> Forward:  # noqa: ARG002
            return lambda images: torch.zeros(len(images), 10)

    with pytest.raises(ParityError, match="nothing was written"):
        export_model(trained["nas-bench-201"][0], "zeros", tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_how_a_file_must_end_and_what_formats_there_are(trained: Trained, tmp_path: Path, capsys: Captured) -> None:
    folder = str(trained["nas-bench-201"][0])
    assert main(["export", folder, "--format", "weights"]) == 2
    assert "format must be one of onnx, pt2, but got 'weights'" in capsys.readouterr().err
    register_weights()
    assert main(["export", folder, "--format", "weights", "--out", str(tmp_path / "x.pt2")]) == 2
    assert "a file for format weights must end in .safetensors" in capsys.readouterr().err
    assert main(["export", folder, "--format", "weight"]) == 2
    assert "one of onnx, pt2, weights, but got 'weight'; did you mean weights?" in capsys.readouterr().err
    assert main(["list", "exporters", "--json"]) == 0
    entries = {entry["name"]: entry["about"] for entry in json.loads(capsys.readouterr().out)}
    assert list(entries) == ["onnx", "pt2", "weights"]
    assert entries["weights"] == "Weights as safetensors."


def test_what_is_no_exporter_and_names_that_are_taken() -> None:
    class Taken(Exporter):
        name = "onnx"

    with pytest.raises(PluginError, match=r"'onnx' is the name of smallgroup.exporters.onnx:Onnx"):
        register(Taken)
    with pytest.raises(PluginError, match=r"must be a subclass of smallgroup.exporters.exporter.Exporter"):
        register(type("Other", (), {"name": "other"}))
    assert list(EXPORTERS) == ["onnx", "pt2"]
