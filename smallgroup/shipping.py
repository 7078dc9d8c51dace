"""The export of a run's model, together with the images that int8 needs."""

from pathlib import Path

from smallgroup.config import CONFIG, load_own, resolve
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters import Exported, export_model
from smallgroup.jobs import training_data_of
from smallgroup.phases.training.place import find_model
from smallgroup.runtime.text import shown


def export(run: str | Path, format: str = "onnx", out: str | Path | None = None, *, int8: bool = False) -> Exported:
    """Export the trained model of a run; see `smallgroup.exporters.export_model`.

    With `int8` it is quantized, calibrated on images of the training, and measured on the test images.
    """
    return export_model(run, format, out, int8=(lambda: images_of(find_model(run))) if int8 else None)


def images_of(folder: Path) -> TrainingData:
    """Open the images that the model in a folder was trained on."""
    if not (folder / CONFIG).is_file():
        raise ValueError(f"int8 is calibrated on the images that {CONFIG} names, but {shown(folder)} has no {CONFIG}")
    return training_data_of(resolve(load_own(folder / CONFIG)))
