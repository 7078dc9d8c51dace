"""What a search writes down beside its metrics: facts, times by stage, and a gallery of disputed images."""

import json
from pathlib import Path
from typing import Any

from smallgroup.phases.facts import facts_of
from smallgroup.phases.pictures import pictures_of
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.place import GALLERY
from smallgroup.runner.recorder import Recorder


def recorder(job: SearchJob, folder: Path) -> Recorder:
    """Return the recorder that writes the files beside the metrics."""
    return Recorder(folder, lambda: facts(job), lambda: files(job), lambda: job.seconds)


def facts(job: SearchJob) -> dict[str, Any]:
    """Return facts of a search for `facts.json`: classes, images, versions."""
    data, splits = job.data, job.data.splits
    images = {"train": len(splits.train), "validation": len(splits.validation), "measured": len(job.metrics.indices)}
    if job.group.setting.teaching.active:
        images["unlabeled"] = len(data.unlabeled_indices)
    learners = [
        {
            "method": one.relaxed.method.name,
            "space": one.relaxed.space.name,
            "summary": one.summary,
            "operations": {name: list(kind.operations) for name, kind in one.relaxed.space.kinds.items()},
            "edges": {name: [list(edge) for edge in kind.edges] for name, kind in one.relaxed.space.kinds.items()},
        }
        for one in job.searchers
    ]
    course = {"steps": job.course.steps, "steps_per_epoch": job.course.steps_per_epoch, "epochs": job.config.epochs}
    found = facts_of("search", data.dataset, images, job.notes, data.skipped, learners=learners, course=course)
    # `size` is that of the network that is trained later, whose size and cost are told from these facts.
    return {**found, "image": {**found["image"], "size": data.full_size, "size_in_search": data.dataset.size}}


def files(job: SearchJob) -> dict[str, str]:
    """Return the text of the gallery, once learners have labeled images for one another."""
    disputed = job.metrics.taught.latest
    if not disputed:
        return {}
    images, truth = job.data.unlabeled, job.metrics.taught.truth
    entries = []
    for one, picture in zip(disputed, pictures_of(images, [one["image"] for one in disputed]), strict=True):
        entry = {**one, **picture}
        if truth is not None:
            entry["class"] = int(truth[one["image"]])
        entries.append(entry)
    return {GALLERY: json.dumps({"schema": 1, "epoch": job.epochs_done - 1, "images": entries}) + "\n"}
