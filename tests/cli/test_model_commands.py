"""`smallgroup predict` and `smallgroup export` through the command line: what they print, and how they fail."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from smallgroup.cli import main
from smallgroup.exporters import export
from smallgroup.phases.training import TrainedModel
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.nas_bench_201.cell import Cell
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.networks import build_network

CELL = Cell.parse("|nor_conv_3x3~0|+|none~0|avg_pool_3x3~1|+|skip_connect~0|none~1|nor_conv_1x1~2|")
DESIGN = NasBench201Design(images=ImageSpec(3, 1, 8), channels=4, cells_per_stage=1)

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole run with a model, trained or not, and an image."""
    model = TrainedModel(CELL, DESIGN, "digits", ("a", "b", "c"), (0.3,), (0.4,))
    (tmp_path / "training").mkdir()
    model.write(tmp_path / "training", build_network(CELL, DESIGN))
    Image.new("L", (8, 8), 90).save(tmp_path / "x.png")
    return tmp_path


def failed(capsys: Captured, code: int, *arguments: str | Path) -> str:
    """The one line a command says when it fails."""
    assert main([str(word) for word in arguments]) == code
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def test_predict(folder: Path, capsys: Captured) -> None:
    assert main(["predict", str(folder), str(folder / "x.png"), "--top", "3", "--json"]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    ((entry),) = json.loads(out)
    assert sorted(guess["class"] for guess in entry["top"]) == ["a", "b", "c"]
    assert main(["predict", str(folder), str(folder / "x.png")]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert out.split() == [str(folder / "x.png"), entry["class"], f"{100 * entry['probability']:.2f}", "%"]


def test_export(folder: Path, capsys: Captured) -> None:
    assert main(["export", str(folder), "--format", "pt2", "--json"]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    found = json.loads(out)
    assert found["path"] == str(folder / "training" / "model.pt2")
    assert Path(found["path"]).stat().st_size > 1000
    assert Path(found["card"]).read_text().startswith("# Model card of model.pt2\n")
    assert 0 <= found["difference"] <= found["tolerance"]


def test_bad_input(folder: Path, capsys: Captured) -> None:
    assert "a run must have a trained model" in failed(capsys, 2, "predict", folder / "none", folder / "x.png")
    assert "a run must have a trained model" in failed(capsys, 2, "export", folder / "none")
    assert "top >= 1 must hold" in failed(capsys, 2, "predict", folder, folder / "x.png", "--top", "0")
    assert "Missing argument" in failed(capsys, 2, "predict", folder)
    assert "format must be one of onnx, pt2" in failed(capsys, 2, "export", folder, "--format", "tflite")
    assert "must end in .pt2" in failed(capsys, 2, "export", folder, "--format", "pt2", "--out", folder / "model")
    assert not list(folder.rglob("*.pt2"))


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100, b'{"schema": 1}', b"\0" * 16])
def test_damaged_models(name: str, content: bytes, folder: Path, capsys: Captured) -> None:
    (folder / "training" / name).write_bytes(content)
    for words in (("predict", folder, folder / "x.png"), ("export", folder, "--format", "pt2")):
        assert f"{name} must " in failed(capsys, 2, *words)


def test_what_is_no_fault_of_the_input(folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(export, "TOLERANCE", -1.0)
        patched.setattr(export, "FLOOR", -1.0)
        assert "nothing was written" in failed(capsys, 1, "export", folder, "--format", "pt2")
    assert not list(folder.rglob("*.pt2*"))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "pip install 'smallgroup[onnx]'" in failed(capsys, 1, "export", folder)
    shutil.rmtree(folder / "training")
    assert "a run must have" in failed(capsys, 2, "export", folder)
