"""The export of a run's model, together with the images that int8 needs."""

from pathlib import Path

from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters import Exported, export_model
from smallgroup.exporters.fine_tune import FineTuning
from smallgroup.jobs import training_data_of
from smallgroup.phases.training.place import find_model
from smallgroup.runtime.text import shown


def export(
    run: str | Path,
    format: str = "onnx",
    out: str | Path | None = None,
    *,
    int8: bool = False,
    fine_tune: int | None = None,
) -> Exported:
    """Export the trained model of a run; see `smallgroup.exporters.export_model`.

    With `int8` it is quantized, calibrated on images of the training, and measured on the test images. With `fine_tune`
    it is trained on for so many epochs before, with its numbers rounded as int8 rounds them.
    """
    if not int8:
        if fine_tune is not None:
            raise ValueError(f"fine-tuning is for files in int8, but got --fine-tune {fine_tune} without --int8")
        return export_model(run, format, out)
    folder = find_model(run)
    tuning = None
    if fine_tune is not None:
        config = _config_of(folder)
        tuning = FineTuning(fine_tune, config.training, config.seed)
    return export_model(run, format, out, int8=lambda: images_of(folder), fine_tuning=tuning)


def images_of(folder: Path) -> TrainingData:
    """Open the images that the model in a folder was trained on."""
    return training_data_of(_config_of(folder))


def _config_of(folder: Path) -> Config:
    if not (folder / CONFIG).is_file():
        raise ValueError(f"int8 is calibrated on the images that {CONFIG} names, but {shown(folder)} has no {CONFIG}")
    return resolve(load_own(folder / CONFIG))
