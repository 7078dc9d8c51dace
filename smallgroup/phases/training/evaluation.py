"""How well a trained model does on labeled images of any data."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smallgroup.data import Augmentation, Dataset
from smallgroup.data.checking import BadImages
from smallgroup.data.errors import DataError
from smallgroup.data.measured import MeasuredImages
from smallgroup.data.names import check_name, source_of
from smallgroup.data.roots import data_root as root_of
from smallgroup.data.source import Source
from smallgroup.data.sources import open_dataset
from smallgroup.phases.evaluate import Evaluation
from smallgroup.phases.evaluate import evaluate as measure
from smallgroup.phases.training.model import TrainedModel, read_model
from smallgroup.phases.training.place import find_model
from smallgroup.phases.training.predict import NotFiniteError
from smallgroup.runtime.device import choose_device
from smallgroup.spaces.outputs import Outputs
from smallgroup.statistics.calibration import Bin, calibration_error, reliability


@dataclass(frozen=True)
class ModelEvaluation:
    """The errors of a model on labeled images, in percent."""

    dataset: str
    part: str
    """Part of the data that was classified, such as test."""
    classes: tuple[str, ...]
    """Names of the classes that the model knows."""
    found: Evaluation
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    """Image files that cannot be decoded and were skipped."""

    @property
    def images(self) -> int:
        """Return the number of images that were classified."""
        return len(self.found.wrong)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of images of each class."""
        return {name: sum(row) for name, row in zip(self.classes, self.found.confusion, strict=True)}

    @property
    def class_errors(self) -> dict[str, float | None]:
        """Return the error on each class; None: the class has no images."""
        shares = zip(self.counts.items(), self.found.recognized, strict=True)
        return {name: 100 - share if images else None for (name, images), share in shares}

    @property
    def missing_classes(self) -> tuple[str, ...]:
        """Classes of the model without images in the data."""
        return tuple(name for name, images in self.counts.items() if not images)

    @property
    def calibration(self) -> list[Bin]:
        """Accuracy and probability of the answers, in bins of probability."""
        return reliability(self.found.confidence, [not wrong for wrong in self.found.wrong])

    @property
    def calibration_error(self) -> float:
        """The expected calibration error, in percentage points."""
        return calibration_error(self.calibration)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the command prints them with `--json`."""
        return {
            "dataset": self.dataset,
            "part": self.part,
            "images": self.images,
            "skipped_images": len(self.skipped),
            "loss": self.found.loss,
            "error": self.found.error,
            "error_top5": self.found.error_top5,
            "balanced_error": self.found.balanced_error,
            "calibration_error": self.calibration_error,
            "calibration": [one.to_dict() for one in self.calibration],
            "classes": list(self.classes),
            "class_images": self.counts,
            "class_errors": self.class_errors,
            "missing_classes": list(self.missing_classes),
            "confusion": self.found.confusion,
            "notes": list(self.notes),
        }


def evaluate(
    run: str | Path,
    data: str,
    *,
    data_root: Path | str | None = None,
    skip_bad_images: bool = False,
    device: str = "cpu",
) -> ModelEvaluation:
    """Classify labeled images with the trained model of a run, and compare the classes with the labels.

    Classes are matched by name. Images are seen exactly as the test images of the training were.

    Args:
        run: the folder of a run with a trained model.
        data: a dataset by name, such as `folder:PATH`. Of a folder with `test/` or `val/` that part is classified, of
            another folder all images; of the data that the model was trained on and of all other data, the test part.
        data_root: the folder with the datasets.
        skip_bad_images: skip image files that cannot be decoded; else they are an error.
        device: where to compute, by its name as in `--device`.
    """
    where = choose_device(device)
    network, model = read_model(find_model(run))
    network.to(where)
    root = root_of(None if data_root is None else Path(data_root))
    measured, notes = _opened(data, model, root, skip_bad_images)
    images = measured.for_model(model.classes, model.design.images, model.margin)
    spec = model.design.images
    seen = Dataset(
        data, model.classes, images, images, model.mean, model.std, spec.channels, spec.size, Augmentation.none()
    )

    def logits_of(inputs: Tensor) -> Tensor:
        return Outputs.of(network(inputs.contiguous(memory_format=torch.channels_last))).logits

    found = measure(logits_of, images, seen, torch.arange(len(images)), device=where)
    if not math.isfinite(found.loss):
        raise NotFiniteError(f"the logits of a model must be finite, but those of the model in {run} are not")
    result = ModelEvaluation(data, measured.part, model.classes, found, notes, measured.skipped)
    if missing := result.missing_classes:
        note = f"{len(missing):,} of {len(model.classes):,} classes of the model have no images here and do not count"
        result = replace(result, notes=(*notes, note))
    return result


def _opened(
    data: str, model: TrainedModel, root: Path, skip_bad_images: bool
) -> tuple[MeasuredImages, tuple[str, ...]]:
    """Open data to measure a model on, with notes; of the data it was trained on, the part that was set aside."""
    bad: BadImages = "skip" if skip_bad_images else "refuse"
    source, size = source_of(data, root), model.design.images.size
    source.require()
    own = _source_of_model(model, root)
    if own is not None and _place(source) == _place(own):
        dataset = open_dataset(data, root, size=size, bad=bad)
        note = "the model was trained on these images: the errors are too low"
        return MeasuredImages.part_of(dataset), () if dataset.test is not None else (note,)
    inside = own is not None and isinstance(own, type(source)) and _is_inside(source.where(), own.where())
    note = "the folder is inside that of the training data: images of the training may be among these"
    return source.open_measured(size, bad), (note,) if inside else ()


def _source_of_model(model: TrainedModel, root: Path) -> Source | None:
    """Return what the model was trained on; None where a file says what is no name of data here."""
    try:
        check_name(model.dataset)
    except DataError:
        return None
    return source_of(model.dataset, root)


def _place(source: Source) -> tuple[str, str]:
    """Return what is the same for two names of the same data."""
    where = source.where()
    return source.name, str(where.resolve()) if isinstance(where, Path) else f"{where} {source.argument}"


def _is_inside(folder: Path | str, outer: Path | str) -> bool:
    return isinstance(folder, Path) and isinstance(outer, Path) and folder.resolve().is_relative_to(outer.resolve())
