"""What a search writes down beside its metrics: facts, times by stage, and a gallery of disputed images."""

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from smallgroup.data import FileImages
from smallgroup.phases.facts import facts_of
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.place import GALLERY
from smallgroup.runner.recorder import Recorder

LARGEST = 48
"""Pixels of a side of a thumbnail."""


def recorder(job: SearchJob, folder: Path) -> Recorder:
    """Who writes it."""
    return Recorder(folder, lambda: facts(job), lambda: files(job), lambda: job.seconds)


def facts(job: SearchJob) -> dict[str, Any]:
    """What a search is."""
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
    """The gallery, once learners have labelled images for one another."""
    disputed = job.metrics.taught.latest
    if not disputed:
        return {}
    images, truth = job.data.unlabeled, job.metrics.taught.truth
    pixels = images.fetch(torch.tensor([one["image"] for one in disputed]))
    entries = []
    for one, picture in zip(disputed, pixels, strict=True):
        entry = {**one, "picture": thumbnail(picture)}
        if isinstance(images, FileImages):
            entry["name"] = images.paths[one["image"]].rsplit("/", 1)[-1].encode(errors="replace").decode()
        if truth is not None:
            entry["class"] = int(truth[one["image"]])
        entries.append(entry)
    return {GALLERY: json.dumps({"schema": 1, "epoch": job.epochs_done - 1, "images": entries}) + "\n"}


def thumbnail(pixels: Tensor) -> str:
    """A small PNG in base64, of uint8 [channels, height, width]."""
    values = pixels.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(values[:, :, 0] if values.shape[2] == 1 else values)
    picture.thumbnail((LARGEST, LARGEST))
    with BytesIO() as file:
        picture.save(file, "PNG", optimize=True)
        return base64.b64encode(file.getvalue()).decode()
