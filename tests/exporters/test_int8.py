"""Exports in int8: they run in onnxruntime, and the numbers about them are those that a user would measure."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
import pytest
import torch

import smallgroup
from smallgroup.cli import main
from smallgroup.data import DataError, TensorImages
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters import export_model
from smallgroup.exporters.int8 import Int8
from smallgroup.phases.training import TrainResult, read_model
from smallgroup.spaces.genotypes import dumps
from tests.phases.training.models import BENCHMARK

Trained = dict[str, tuple[Path, TrainingData, TrainResult]]
Captured = pytest.CaptureFixture[str]


def test_every_number_is_what_a_user_measures(trained: Trained, tmp_path: Path) -> None:
    folder, data, result = trained["darts"]
    plain = export_model(folder, "onnx", tmp_path / "plain.onnx")
    made = export_model(folder, "onnx", tmp_path / "small.onnx", int8=lambda: data)
    told = made.to_dict()["int8"]
    test = data.dataset.test
    assert isinstance(test, TensorImages)
    assert test.labels is not None
    pixels = test.pixels.numpy().astype(np.float32) / 255
    inputs = (pixels - np.float32(data.dataset.mean[0])) / np.float32(data.dataset.std[0])
    before, after = (
        onnxruntime.InferenceSession(path).run(None, {"images": inputs})[0] for path in (plain.path, made.path)
    )
    errors = [100 * (logits.argmax(1) != test.labels.numpy()).mean() for logits in (before, after)]
    assert told["test_error"] == pytest.approx(errors[0]) == pytest.approx(result.test_error)
    assert told["test_error_int8"] == pytest.approx(errors[1])
    assert told["difference"] == pytest.approx(np.abs(before - after).max(), rel=1e-3)
    assert 0 < told["difference"] < 0.2 * np.abs(before).max()
    assert told["kilobytes"] == plain.path.stat().st_size / 1024
    assert told["kilobytes_int8"] == made.path.stat().st_size / 1024
    assert (told["calibration_images"], told["test_images"]) == (256, len(test))
    card = made.card.read_text()
    assert f"| test error of the files | {errors[1]:.2f} % in int8, {errors[0]:.2f} % in float32, " in card
    assert f"| size | {told['kilobytes_int8']:,.1f} KB in int8, {told['kilobytes']:,.1f} KB in float32 |" in card
    check_weights(onnx.load(made.path), folder)
    first, second = ({prop.key: prop.value for prop in onnx.load(one.path).metadata_props} for one in (plain, made))
    assert first == second  # classes, size and normalization


def check_weights(proto: onnx.ModelProto, folder: Path) -> None:
    """Every weight is int8 with a scale per output channel, and within half a step of the trained one."""
    values = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    (weight,) = [name for name in values if name.startswith("classifier.weight") and values[name].dtype == np.int8
                 and values[name].ndim == 2]  # fmt: skip
    scale = values["classifier.weight_scale"]
    trained = read_model(folder)[0].classifier.weight.detach().numpy()
    assert scale.shape == (len(trained),)
    found = values[weight].astype(np.float32)
    found = found if found.shape == trained.shape else found.T
    assert (np.abs(found * scale[:, None] - trained) <= 0.5001 * scale[:, None]).all()
    convolutions = [node.input[1] for node in proto.graph.node if node.op_type == "Conv"]
    dequantized = {node.output[0]: node.input for node in proto.graph.node if node.op_type == "DequantizeLinear"}
    assert convolutions
    for name in convolutions:
        quantized, scales, _ = dequantized[name]
        assert values[quantized].dtype == np.int8
        assert values[scales].shape == values[quantized].shape[:1]


def test_a_format_without_int8_refuses_in_one_line(trained: Trained, tmp_path: Path, capsys: Captured) -> None:
    folder = trained["darts"][0]

    def opened() -> TrainingData:
        raise AssertionError("nothing is opened for a format that cannot be quantized")

    with pytest.raises(ValueError, match="--int8 needs a format that can be quantized, such as onnx, but got pt2"):
        export_model(folder, "pt2", tmp_path / "x.pt2", int8=opened)
    assert main(["export", str(folder), "--format", "pt2", "--int8", "--out", str(tmp_path / "x.pt2")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["export", str(folder), "--int8", "--out", str(tmp_path / "x.onnx")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: int8 is calibrated on the images that config.yaml names, but ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_other_images_than_those_of_the_training_are_refused(trained: Trained, tmp_path: Path) -> None:
    folder, data, _ = trained["nas-bench-201"]
    other = replace(data, dataset=replace(data.dataset, classes=tuple("abcdefghij")))
    with pytest.raises(DataError, match="but digits has other classes, another size or other channels now"):
        export_model(folder, "onnx", tmp_path / "x.onnx", int8=lambda: other)
    assert list(tmp_path.iterdir()) == []


def test_a_loss_of_more_than_a_point_is_said() -> None:
    report = Int8(256, 100, 10.0, 11.0, 0.5, 40.0, 12.0)
    assert report.warning is None
    worse = replace(report, test_error_int8=12.5)
    assert worse.warning == "int8 costs 2.50 points of test error, more than 1; --fine-tune 3 may recover some of them"
    assert worse.rows()[-1] == ("warning", worse.warning)
    assert replace(report, test_error=None, test_error_int8=None).warning is None


def test_the_command_on_a_run(tmp_path: Path, capsys: Captured) -> None:
    """The images are those that the run's config names; data without a test part give no error."""
    training = {"epochs": 1, "steps_per_epoch": 3, "batch_size": 16, "network": {"channels": 4, "cells_per_stage": 1}}
    run = tmp_path / "run"
    smallgroup.train(dumps(BENCHMARK), {"dataset": "digits", "training": training}, out=run, progress=False)
    capsys.readouterr()
    torch_state = torch.get_rng_state()
    assert main(["export", str(run), "--int8", "--json"]) == 0
    assert torch.equal(torch.get_rng_state(), torch_state)
    out, error = capsys.readouterr()
    assert error == ""
    told = json.loads(out)
    assert told["path"] == str(run / "model.int8.onnx")
    assert told["int8"]["test_images"] == 359
