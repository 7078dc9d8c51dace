"""What a file in int8 is worth: its size and its errors beside those of the file in float32."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from smallgroup.data import ordered
from smallgroup.data.errors import DataError
from smallgroup.data.splits import mixed
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters.exporter import Exporter
from smallgroup.phases.evaluate import BATCH, evaluate
from smallgroup.phases.training.model import TrainedModel

CALIBRATION = 256
"""Training images, at most, whose activations say which range of numbers int8 has to hold."""
POINT = 1.0
"""Percentage points of test error that int8 may cost before it is worth a warning."""


@dataclass(frozen=True)
class Int8:
    """A model before and after quantization; errors are percentages of the test images."""

    calibration_images: int
    test_images: int
    """0: the data have no test part, and the errors are None."""
    test_error: float | None
    test_error_int8: float | None
    difference: float
    """The largest absolute difference of a logit, on the test images, else on the calibration images."""
    kilobytes: float
    """Kilobytes of the file in float32, of 1,024 bytes each."""
    kilobytes_int8: float
    latency_ms: float | None = None
    """Milliseconds of the file in float32 for one image on this machine; None: the format is not measured."""
    latency_ms_int8: float | None = None
    fine_tuned_epochs: int = 0
    """Epochs of quantization-aware fine-tuning; 0: none."""
    test_error_int8_before: float | None = None
    """Test error of the file in int8 before fine-tuning; None if there was none, or no test images."""

    @property
    def warning(self) -> str | None:
        """Say so if int8 costs more than a point of test error."""
        if self.test_error is None or self.test_error_int8 is None or self.test_error_int8 - self.test_error <= POINT:
            return None
        lost = self.test_error_int8 - self.test_error
        offer = "more epochs may help" if self.fine_tuned_epochs else "--fine-tune 3 may recover some of them"
        return f"int8 costs {lost:.2f} points of test error, more than {POINT:g}; {offer}"

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines of the model card and of the command."""
        rows = [
            ("quantization", f"int8, static, calibrated on {self.calibration_images:,} training images"),
            ("size", f"{self.kilobytes_int8:,.1f} KB in int8, {self.kilobytes:,.1f} KB in float32"),
            ("largest difference of logits", f"{self.difference:.3g}, int8 and float32"),
        ]
        if self.test_error is not None and self.test_error_int8 is not None:
            errors = f"{self.test_error_int8:.2f} % in int8, {self.test_error:.2f} % in float32"
            rows.append(("test error of the files", f"{errors}, {self.test_images:,} images"))
        if self.fine_tuned_epochs:
            words = f"{self.fine_tuned_epochs} epochs, quantization-aware"
            if self.test_error_int8_before is not None:
                words += f"; test error in int8 without it {self.test_error_int8_before:.2f} %"
            rows.append(("fine-tuning", words))
        if self.latency_ms is not None and self.latency_ms_int8 is not None:
            both = f"{self.latency_ms_int8:.3g} ms in int8, {self.latency_ms:.3g} ms in float32"
            rows.append(("latency", f"{both}, one image, onnxruntime, one thread, on the machine of the export"))
        return rows + ([] if self.warning is None else [("warning", self.warning)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `--json` prints them."""
        return {**asdict(self), "warning": self.warning}


def check_images(model: TrainedModel, data: TrainingData) -> None:
    """Refuse images that a model cannot have been trained on."""
    if data.dataset.classes != model.classes or data.dataset.spec != model.design.images:
        raise DataError(
            f"int8 is calibrated on the images of the training, but {data.dataset.name} has other classes, "
            "another size or other channels now"
        )


def quantize(
    exporter: Exporter,
    content: bytes,
    model: TrainedModel,
    data: TrainingData,
    *,
    tuned: bytes | None = None,
    epochs: int = 0,
) -> tuple[bytes, Int8]:
    """Return a file in int8, calibrated on images that the model was trained on, and what it is worth.

    Args:
        exporter: the format.
        content: the file in float32.
        model: what it is.
        data: the images it was trained on.
        tuned: the file in float32 after `epochs` of fine-tuning, which is quantized in its place.
        epochs: of fine-tuning.
    """
    # Mean and deviation are those of the model: a folder's own change with its files.
    dataset = replace(data.dataset, mean=model.mean, std=model.std)
    calibration = mixed(data.trained)[:CALIBRATION]

    def batches() -> Iterator[Tensor]:
        drawn = ordered(dataset.train, calibration, batch_size=BATCH, mean=dataset.mean, std=dataset.std)
        return (inputs for inputs, _ in drawn)

    made = exporter.int8(content if tuned is None else tuned, batches())
    before, after = exporter.runs(content), exporter.runs(made)
    pair = _Pair(before, after)
    errors: tuple[float, float] | None = None
    untuned: float | None = None
    if data.tested is None:
        for inputs in batches():
            pair.compare(inputs)
    else:
        images, places = data.tested
        errors = (
            evaluate(before, images, dataset, places).error,
            evaluate(pair.compare, images, dataset, places).error,
        )
        if tuned is not None:
            untuned = evaluate(exporter.runs(exporter.int8(content, batches())), images, dataset, places).error
    milliseconds = exporter.latencies([content, made], dataset.spec)
    return made, Int8(
        calibration_images=len(calibration),
        test_images=0 if data.tested is None else len(data.tested[1]),
        test_error=None if errors is None else errors[0],
        test_error_int8=None if errors is None else errors[1],
        difference=pair.difference,
        kilobytes=len(content) / 1024,
        kilobytes_int8=len(made) / 1024,
        latency_ms=None if milliseconds is None else milliseconds[0],
        latency_ms_int8=None if milliseconds is None else milliseconds[1],
        fine_tuned_epochs=epochs,
        test_error_int8_before=untuned,
    )


@dataclass
class _Pair:
    """Two files that compute the same logits, and how far they were apart so far."""

    before: Callable[[Tensor], Tensor]
    after: Callable[[Tensor], Tensor]
    difference: float = 0.0

    def compare(self, inputs: Tensor) -> Tensor:
        """Return the logits of the second file."""
        first, second = self.before(inputs), self.after(inputs)
        if not bool(torch.isfinite(second).all()):
            raise ArithmeticError("the logits of a file in int8 must be finite, but they are not; nothing was written")
        self.difference = max(self.difference, float((first - second).abs().max()))
        return second
