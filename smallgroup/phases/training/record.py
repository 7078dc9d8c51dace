"""What a training writes down beside its metrics."""

from pathlib import Path
from typing import Any

from smallgroup.phases.facts import facts_of
from smallgroup.phases.training.course import TrainingCourse
from smallgroup.runner.recorder import Recorder


def recorder(job: TrainingCourse, folder: Path) -> Recorder:
    """Return the recorder that writes the files beside the metrics."""
    return Recorder(folder, lambda: facts(job), seconds=lambda: job.seconds)


def facts(job: TrainingCourse) -> dict[str, Any]:
    """Return facts of a training for `facts.json`."""
    dataset = job.data.dataset
    images = {"train": len(dataset.train), "test": 0 if dataset.test is None else len(dataset.test)}
    if job.data.unlabeled is not None:
        images["unlabeled"] = len(job.data.unlabeled.indices)
    course = {"steps": job.steps, "steps_per_epoch": job.steps_per_epoch, "epochs": job.config.epochs}
    return facts_of("training", dataset, images, job.data.notes, job.data.skipped, course=course)
