"""A trained model as one file for other programs, in any format that is registered.

Each takes `images`, float32 [batch, channels, size, size] with any batch, normalized as `about` says, and gives
`logits` [batch, classes].
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from smallgroup.data.errors import require_folder
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters import EXPORTERS
from smallgroup.exporters.exporter import Exporter, Forward
from smallgroup.exporters.fine_tune import FineTuning
from smallgroup.exporters.int8 import Int8, check_images, quantize
from smallgroup.phases.training.card import write_card
from smallgroup.phases.training.model import TrainedModel, read_model
from smallgroup.phases.training.place import find_model
from smallgroup.phases.training.result import TrainResult
from smallgroup.runtime import stream
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.runtime.text import shown
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.outputs import Outputs

TOLERANCE = 1e-4
"""How far logits may be off, as a part of the largest logit.

Another runtime adds in another order, and a batch norm may have become part of the convolution before it. Each costs a
few units of float32 (6e-8), and some hundred layers one after the other some 1e-6 or 1e-5. A wrong operation, a lost
weight or a swapped axis costs a part of the logits one can see, above 1e-3. The limit is between.
"""
FLOOR = 1e-6
"""How far they may be off where all logits are next to zero."""
BATCHES = (1, 3)
"""Images of the batches that are compared; one alone is where exporters take a dimension for a constant."""


SCRIPT = "predict.py"
"""Name of the program that is written beside an export."""


class ParityError(ArithmeticError):
    """The outputs of an export differ from those of the trained model; nothing was written."""


@dataclass(frozen=True)
class Exported:
    """The path of an export, and how closely it agrees with the trained model."""

    path: Path
    card: Path
    format: str
    difference: float
    """The largest absolute difference of a logit, on random images; with int8 that of the file before quantization."""
    tolerance: float
    """The largest that would have been accepted."""
    int8: Int8 | None = None
    """What quantization did; None: the file is in float32."""
    script: Path | None = None
    """A program beside the file that classifies images with it; None: the format has none, or another file is there."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the command prints them with `--json`."""
        script = None if self.script is None else str(self.script)
        int8 = None if self.int8 is None else self.int8.to_dict()
        return {**vars(self), "path": str(self.path), "card": str(self.card), "int8": int8, "script": script}


def export_model(
    run: str | Path,
    format: str = "onnx",
    out: str | Path | None = None,
    *,
    int8: Callable[[], TrainingData] | None = None,
    fine_tuning: FineTuning | None = None,
) -> Exported:
    """Export the trained model of a run; without `out`, as `model.onnx`, `model.pt2` and so on beside it.

    The file is compared with the trained model before it is written, and either is written whole or not at all. A
    short model card goes beside it, and `predict.py`, which classifies images, if the format has such a program.

    Args:
        run: the folder of a run with a trained model.
        format: one of `smallgroup list exporters`.
        out: the file; with `int8` the default is `model.int8.onnx` and so on.
        int8: what opens the images that the model was trained on: then the file is quantized, calibrated on some of
            them, and measured on the test images. None: float32.
        fine_tuning: with `int8`: training for some epochs with rounded numbers before the file is quantized.
    """
    if fine_tuning is not None and int8 is None:
        raise ValueError("fine-tuning is for files in int8, but int8 is None")
    EXPORTERS.check_name(format, "format")
    exporter, folder = EXPORTERS[format](), find_model(run)
    path = folder / f"model{'' if int8 is None else '.int8'}{exporter.ending}" if out is None else Path(out)
    if not path.name.endswith(exporter.ending):
        raise ValueError(f"a file for format {format} must end in {exporter.ending}, but got {shown(path)}")
    require_folder(path.parent, "the place of an export")
    if int8 is not None and type(exporter).int8 is Exporter.int8:
        exporter.int8(b"", ())  # which refuses, before anything is computed
    exporter.require()
    network, model = read_model(folder)
    data = None if int8 is None else int8()
    if data is not None:
        check_images(model, data)
    content = exporter.content(network, model)
    difference, tolerance = check_parity(network, model, exporter.runs(content))
    report = None
    if data is not None:
        tuned = None if fine_tuning is None else exporter.content(fine_tuning.of(network, model, data), model)
        epochs = 0 if fine_tuning is None else fine_tuning.epochs
        content, report = quantize(exporter, content, model, data, tuned=tuned, epochs=epochs)
    card = path.with_name(path.name + ".md")
    write_whole(path, content)
    try:
        rows = [("this file", f"logits at most {difference:.1e} from those of the trained model, on random images")]
        rows = rows if report is None else report.rows()
        write_card(card, path.name, network, model, result=TrainResult.read(folder), rows=rows)
        script = _write_script(path.with_name(SCRIPT), exporter.script())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Exported(path, card, format, difference, tolerance, report, script)


def _write_script(path: Path, content: str | None) -> Path | None:
    """Write the program that classifies images, unless a file that is not such a program has its name."""
    if content is None:
        return None
    if os.path.lexists(path):
        try:
            is_ours = read_regular(path).splitlines()[:1] == content.encode().splitlines()[:1]
        except (OSError, ValueError):
            is_ours = False
        if not is_ours:
            return None
    write_whole(path, content)
    return path


def check_parity(network: DerivedNetwork, model: TrainedModel, exported: Forward) -> tuple[float, float]:
    """Return the largest difference of the logits on random images, and the tolerance; raise an error above it."""
    differences, sizes = [], []
    for count in BATCHES:
        images = torch.randn(count, *model.design.images.shape, generator=stream("export", count))
        with torch.no_grad():
            expected, found = Outputs.of(network(images)).logits, exported(images)
        if found.shape != expected.shape:
            raise ParityError(
                f"the export must give logits of shape {tuple(expected.shape)}, but gives {tuple(found.shape)}; "
                "nothing was written"
            )
        differences.append((found - expected).abs().max())
        sizes.append(expected.abs().max())
    difference, largest = (float(torch.stack(each).max()) for each in (differences, sizes))  # NaN stays NaN
    tolerance = max(TOLERANCE * largest, FLOOR)
    if not difference <= tolerance:  # also where one of them is no number
        raise ParityError(
            f"the export must give the logits of the trained model up to {tolerance:.1e}, but they are "
            f"{difference:.1e} apart; nothing was written"
        )
    return difference, tolerance
