"""The program beside an ONNX file: what `smallgroup predict` says, without torch and without this package."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import smallgroup
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters import Exported, export, export_model, onnx
from smallgroup.phases.training import TrainedModel, TrainResult
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.networks import build_network
from tests.phases.training.models import BENCHMARK

Trained = dict[str, tuple[Path, TrainingData, TrainResult]]
ALLOWED = ("onnxruntime", "numpy", "PIL")
BLOCKED = """
import runpy, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        if first in {"torch", "smallgroup", "onnx", "onnxscript", "scipy", "sklearn", "pydantic"}:
            raise ImportError(f"{name} must not be imported")

sys.meta_path.insert(0, Blocked())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program so that it can import nothing that the plain environment of a user would not have."""


def model(folder: Path, channels: int, margin: float) -> Path:
    """A model of three classes with random weights, for images of 8x8 pixels."""
    design = NasBench201Design(images=ImageSpec(3, channels, 8), channels=4, cells_per_stage=1)
    network = build_network(BENCHMARK, design, generator=stream("script", channels))
    network.eval().classifier.weight.data.mul_(40)
    with torch.no_grad():  # so that no class is everybody's
        network.classifier.bias.sub_(network(torch.randn(50, channels, 8, 8, generator=stream("script"))).mean(0))
    names = ("a", "ü\n\x1b[31m", "c")
    folder.mkdir()
    TrainedModel(BENCHMARK, design, "x", names, (0.5,) * channels, (0.2,) * channels, margin).write(folder, network)
    return folder


def images(folder: Path) -> list[str]:
    """Every kind that is read in another way: gray, color, transparent, 16 bits, palette, large JPEG, turned."""
    folder.mkdir()
    rng = np.random.default_rng(0)

    def noise(*shape: int) -> np.ndarray:
        return rng.integers(0, 256, shape, dtype=np.uint8)

    Image.fromarray(noise(11, 17)).save(folder / "gray.png")
    Image.fromarray(noise(20, 9, 3)).save(folder / "color.png")
    Image.fromarray(noise(12, 12, 4)).save(folder / "transparent.png")
    Image.fromarray(noise(10, 11, 3)).convert("P").save(folder / "palette.gif")
    Image.fromarray(rng.integers(0, 65536, (9, 9), dtype=np.uint16)).save(folder / "deep.png")
    Image.fromarray(noise(9, 14, 3)).save(folder / "small.jpg")
    Image.fromarray(noise(16, 16, 3)).resize((203, 151), Image.Resampling.BICUBIC).save(folder / "large.jpg")
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(noise(16, 16, 3)).resize((203, 151)).save(folder / "turned.jpg", exif=turned)
    return sorted(str(path) for path in folder.iterdir())


def run_script(exported: Exported, paths: list[str], *program: str) -> list[dict[str, object]]:
    assert exported.script is not None
    words = [*program, str(exported.script), str(exported.path), *paths]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    made = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.isascii()
    return [json.loads(line) for line in made.stdout.splitlines()]


def check_agreement(run: Path, exported: Exported, paths: list[str], *program: str) -> None:
    found = run_script(exported, paths, *program)
    expected = smallgroup.predict(run, paths)
    assert len({prediction.class_name for prediction in expected}) > 1  # or any answer would do
    assert [entry["image"] for entry in found] == paths
    for entry, prediction in zip(found, expected, strict=True):
        # A turned image is turned before it is resampled, so that a pixel may be off by one of 255 levels.
        tolerance = 0.03 if "turned" in prediction.image else 1e-5
        assert entry["class"] == prediction.class_name
        assert entry["probability"] == pytest.approx(prediction.probability, abs=tolerance)


def test_the_program_agrees_with_predict_and_needs_no_torch(tmp_path: Path) -> None:
    """In color, with a margin; `test_export` has gray images."""
    run = model(tmp_path / "run", 3, 8 / 7)
    exported = export_model(run, "onnx")
    assert exported.script == tmp_path / "run" / "predict.py"
    check_agreement(run, exported, images(tmp_path / "images"), sys.executable, "-c", BLOCKED)


def test_what_the_program_imports() -> None:
    lines = [line.split() for line in onnx.SCRIPT.read_text().splitlines()]
    imported = {words[1].partition(".")[0] for words in lines if words[:1] in (["import"], ["from"])}
    assert imported - set(sys.stdlib_module_names) == set(ALLOWED)


def test_an_import_that_is_blocked_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import torch")
    words = [sys.executable, "-c", BLOCKED, str(tmp_path / "x.py")]
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert "torch must not be imported" in made.stderr


def test_a_file_of_the_same_name_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.Onnx, "content", lambda *_: b"content")
    monkeypatch.setattr(onnx.Onnx, "runs", lambda *_: None)
    monkeypatch.setattr(export, "check_parity", lambda *_: (0.0, 1.0))
    run, script = model(tmp_path / "run", 1, 1.0), tmp_path / "run" / "predict.py"
    script.write_text("my own program")
    assert export_model(run, "onnx").script is None
    assert script.read_text() == "my own program"
    script.write_text(onnx.SCRIPT.read_text() + "# of an earlier version\n")
    assert export_model(run, "onnx").to_dict()["script"] == str(script)
    assert script.read_text() == onnx.SCRIPT.read_text()
    script.unlink()
    script.symlink_to(tmp_path / "elsewhere.py")
    assert export_model(run, "onnx").script is None
    assert not (tmp_path / "elsewhere.py").exists()


@pytest.mark.slow
def test_in_an_environment_of_its_own(tmp_path: Path) -> None:
    """With onnxruntime, numpy and pillow alone, installed from the registry that pip is set up for."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "onnxruntime", "numpy", "pillow"]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        pytest.skip("packages cannot be installed here: the program was not run in an environment of its own")
    missing = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True, check=False)
    assert "No module named 'torch'" in missing.stderr
    run = model(tmp_path / "run", 3, 1.0)
    check_agreement(run, export_model(run, "onnx"), images(tmp_path / "images"), python)
