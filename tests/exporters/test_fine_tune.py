"""Quantization-aware fine-tuning: numbers are rounded as in int8, trained on, and measured."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from smallgroup.cli import main
from smallgroup.config import resolve
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters import export_model
from smallgroup.exporters.fine_tune import FineTuning, _rounded
from smallgroup.phases.training import TrainResult, read_model

Trained = dict[str, tuple[Path, TrainingData, TrainResult]]


def tuning(epochs: int) -> FineTuning:
    keys = {"dataset": "digits", "training": {"steps_per_epoch": 3, "batch_size": 16, "validation": 0.0}}
    return FineTuning(epochs, resolve(keys).training, 1)


def test_weights_and_inputs_have_the_levels_of_int8_and_gradients_pass() -> None:
    torch.manual_seed(0)
    convolution, linear = nn.Conv2d(2, 3, 3, bias=False), nn.Linear(12, 4)
    network = nn.Sequential(convolution, nn.Flatten(), linear)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    images = torch.rand(2, 2, 4, 4)
    plain = network(images)
    with _rounded(network):
        found = network(images)
        for layer, name in ((convolution, "0.weight"), (linear, "2.weight")):
            own = before[name].flatten(1)
            step = own.abs().amax(1, keepdim=True) / 127
            assert torch.allclose(layer.weight.flatten(1), (own / step).round() * step, atol=1e-6)
        found.sum().backward()
    assert 0 < float((found - plain).detach().abs().max()) < 0.1 * float(plain.detach().abs().max())
    assert all(float(p.grad.abs().sum()) > 0 for p in network.parameters() if p.grad is not None)
    assert len([p for p in network.parameters() if p.grad is not None]) == 3
    assert network.state_dict().keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert torch.equal(network(images), plain)


def test_fine_tuning_trains_a_copy(trained: Trained) -> None:
    folder, data, _ = trained["nas-bench-201"]
    network, model = read_model(folder)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    made, again = (tuning(1).of(network, model, data).state_dict() for _ in range(2))
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert made.keys() == before.keys()
    assert all(torch.equal(tensor, again[name]) for name, tensor in made.items())
    assert not torch.equal(made["classifier.weight"], before["classifier.weight"])


@pytest.mark.slow
def test_an_export_measures_what_fine_tuning_is_worth(trained: Trained, tmp_path: Path) -> None:
    folder, data, result = trained["nas-bench-201"]
    untuned = export_model(folder, "onnx", tmp_path / "a.onnx", int8=lambda: data).int8
    exported = export_model(folder, "onnx", tmp_path / "b.onnx", int8=lambda: data, fine_tuning=tuning(2))
    report = exported.int8
    assert untuned is not None
    assert report is not None
    assert (report.fine_tuned_epochs, report.test_error_int8_before) == (2, untuned.test_error_int8)
    assert report.test_error == untuned.test_error == pytest.approx(result.test_error)
    assert (tmp_path / "a.onnx").read_bytes() != (tmp_path / "b.onnx").read_bytes()
    card = exported.card.read_text()
    assert f"2 epochs, quantization-aware; test error in int8 without it {untuned.test_error_int8:.2f} % |" in card
    assert f"| latency | {report.latency_ms_int8:.3g} ms in int8, {report.latency_ms:.3g} ms in float32, one im" in card


def test_it_is_for_int8_alone(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = trained["nas-bench-201"][0]
    assert main(["export", str(folder), "--fine-tune", "2", "--out", str(tmp_path / "x.onnx")]) == 2
    assert capsys.readouterr().err == "error: fine-tuning is for files in int8, but got --fine-tune 2 without --int8\n"
    with pytest.raises(ValueError, match="fine_tune >= 1 must hold, but got fine_tune=0"):
        replace(tuning(1), epochs=0)
    assert list(tmp_path.iterdir()) == []
