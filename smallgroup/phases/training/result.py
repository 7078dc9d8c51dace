"""How a training ends: the test images are looked at once, and everything is written down."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from smallgroup.data import FileImages
from smallgroup.phases.evaluate import Evaluation
from smallgroup.phases.pictures import pictures_of
from smallgroup.phases.shown import ShownResult
from smallgroup.phases.training.job import TrainingJob
from smallgroup.phases.training.latency import key_of, read_latencies
from smallgroup.phases.training.model import TrainedModel
from smallgroup.phases.training.place import ABOUT, HELD_OUT, MISTAKES, WEIGHTS
from smallgroup.phases.training.size import NetworkSize, fit_in_words
from smallgroup.phases.training.trainee import Trainee
from smallgroup.runner import read_rows
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.runtime.memory import peak_memory
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.footprint import footprint
from smallgroup.spaces.genotypes import from_plain, to_plain

RESULT, WRONG = "result.json", "test.json"
MOST_MISTAKES = 24
"""Misclassified images that are kept for the report."""


@dataclass(frozen=True)
class TrainResult(ShownResult):
    """A finished training: what `result.json` says. Errors are percentages."""

    dataset: str
    space: str
    seed: int
    genotype: Any
    parameters: int
    """Without the auxiliary head, which is gone once training is over."""
    multiply_adds: int
    epochs: int
    steps: int
    seconds: float
    peak_memory_mb: float
    train_error: float
    """Over the last epoch, of augmented images in training mode."""
    test_set: Literal[
        "looked at once, after the last epoch",
        "looked at after every epoch",
        "not looked at: the errors are those of the held-out images",
        "none",
    ]
    test_error: float | None
    """Test error after the last epoch, in percent."""
    test_error_top5: float | None
    best_test_error: float | None
    """The lowest of all epochs, chosen by the test images themselves; None unless they were tracked."""
    class_errors: dict[str, float] | None
    confusion: list[list[int]] | None
    """Test images by their class (rows) and the class they were given (columns)."""
    balanced_error: float | None = None
    """The mean over the classes of the test error on each; results of earlier versions have none."""
    skipped_images: int = 0
    """Image files that cannot be decoded and were left out; `facts.json` names them."""
    choice: str | None = None
    """How wide and deep the network is because of limits on its size."""
    retained: int | None = None
    """In a group, the index from 0 of the network with the lowest validation loss, to which the other fields belong."""
    group: list[dict[str, Any]] | None = None
    """In a group, the numbers of every network."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the file has it; that of one network has nothing about a group."""
        plain = asdict(self)
        return plain if self.group is not None else {k: v for k, v in plain.items() if k not in ("retained", "group")}

    @staticmethod
    def read(folder: Path) -> "TrainResult | None":
        """Read the file of a finished training; None if there is none, or none that can be used."""
        try:
            result = _RESULT.validate_json(read_regular(folder / RESULT), strict=True)
            from_plain(result.space, result.genotype)
            return result if (folder / ABOUT).is_file() and (folder / WEIGHTS).is_file() else None
        except (OSError, ValueError, TypeError, RecursionError):
            return None


_RESULT = TypeAdapter(TrainResult)


def read_wrong(folder: Path) -> list[bool] | None:
    """Return which test images a finished training got wrong, in their order; None if no usable file says it."""
    try:
        wrong = json.loads(read_regular(folder / WRONG))["wrong"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(wrong, list) or not wrong or any(one not in (0, 1) for one in wrong):
        return None
    return [bool(one) for one in wrong]


def _write_mistakes(trainee: Trainee, found: Evaluation, folder: Path) -> None:
    """Write the misclassified images about which the network is most certain, as small pictures for the report."""
    assert trainee.data.tested is not None
    images, indices = trainee.data.tested
    places = indices.sort().values.tolist()
    wrong = sorted((k for k, missed in enumerate(found.wrong) if missed), key=lambda k: (-found.confidence[k], k))
    shown = wrong[:MOST_MISTAKES]
    truth = images.labels
    entries = [
        {
            "image": places[k],
            "class": None if truth is None else int(truth[places[k]]),
            "given": found.given[k],
            "confidence": round(found.confidence[k], 4),
            **picture,
        }
        for k, picture in zip(shown, pictures_of(images, [places[k] for k in shown]) if shown else [], strict=True)
    ]
    write_whole(folder / MISTAKES, json.dumps({"schema": 1, "wrong": len(wrong), "images": entries}) + "\n")


def conclude(job: TrainingJob, *, seconds: float, folder: Path) -> TrainResult:
    """Look at the test images, and write the model and `result.json`."""
    found = None if job.data.tested is None else job.test()
    rows = list(read_rows(folder / "metrics.jsonl"))
    return write_result(job.trainee, found, rows, steps=job.step, seconds=seconds, folder=folder)


def _choice(trainee: Trainee, parameters: int, multiply_adds: int, folder: Path) -> str:
    """Say how large the network is that is shipped, with memory and latency where they are limited."""
    config, limits = trainee.config, trainee.config.limits
    found = footprint(trainee.network, trainee.data.dataset.spec) if limits.on_memory else None
    size = NetworkSize(parameters, multiply_adds, *((None, None) if found is None else (found.flash_kb, found.ram_kb)))
    if limits.latency_ms is not None:
        size = replace(size, latency_ms=read_latencies(folder).get(key_of(trainee.genotype, trainee.design)))
    return fit_in_words(trainee.genotype.space, config.network, config.limits, size)


def write_result(
    trainee: Trainee,
    found: Evaluation | None,
    rows: Sequence[Mapping[str, Any]],
    *,
    steps: int,
    seconds: float,
    folder: Path,
    group: list[dict[str, Any]] | None = None,
    retained: int | None = None,
) -> TrainResult:
    """Write the model of a network and its `result.json`, from its rows of metrics and what the test images gave."""
    dataset = trainee.data.dataset
    tracked = [row["test_error"] for row in rows if "test_error" in row]
    how: Any = "looked at after every epoch" if tracked else "looked at once, after the last epoch"
    if trainee.data.held_out is not None:
        how = HELD_OUT
    size = parameters(trainee.network), multiply_adds(trainee.network, dataset.size, dataset.channels)
    recognized = None if found is None else dict(zip(dataset.classes, found.recognized, strict=True))
    result = TrainResult(
        dataset=dataset.name,
        space=trainee.genotype.space,
        seed=trainee.seed,
        genotype=to_plain(trainee.genotype),
        parameters=size[0],
        multiply_adds=size[1],
        epochs=trainee.config.epochs,
        steps=steps,
        seconds=seconds,
        peak_memory_mb=round(peak_memory() / 2**20, 1),
        train_error=rows[-1]["train_error"],
        test_set="none" if found is None else how,
        test_error=None if found is None else found.error,
        test_error_top5=None if found is None else found.error_top5,
        best_test_error=min(tracked) if tracked else None,
        class_errors=None if recognized is None else {name: 100 - share for name, share in recognized.items()},
        confusion=None if found is None else found.confusion,
        balanced_error=None if found is None else found.balanced_error,
        skipped_images=len(trainee.data.skipped),
        choice=_choice(trainee, *size, folder) if trainee.config.limits else None,
        retained=retained,
        group=group,
    )
    model = TrainedModel(
        trainee.genotype,
        replace(trainee.design, auxiliary="none"),
        dataset.name,
        dataset.classes,
        tuple(dataset.mean),
        tuple(dataset.std),
        dataset.train.margin if isinstance(dataset.train, FileImages) else 1.0,
    )
    model.write(folder, trainee.shipped)
    if found is not None:
        _write_mistakes(trainee, found, folder)
        write_whole(folder / WRONG, json.dumps({"schema": 1, "wrong": [int(one) for one in found.wrong]}) + "\n")
    write_whole(folder / RESULT, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
    return result
