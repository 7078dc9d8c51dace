"""What a run is, in words and numbers that its config does not have: classes, images, versions, the machine."""

import platform
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from smallgroup.data import Dataset
from smallgroup.runtime.environment import cores
from smallgroup.version import __version__


def facts_of(
    kind: str,
    dataset: Dataset,
    images: dict[str, int],
    notes: Sequence[str],
    skipped: Sequence[str],
    **more: Any,  # noqa: ANN401 -- what a kind of run has to say
) -> dict[str, Any]:
    """Return facts of a job in the form of `facts.json`."""
    versions = {
        "smallgroup": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
    }
    return {
        "kind": kind,
        "dataset": dataset.name,
        "classes": list(dataset.classes),
        "notes": [*([f"images: {dataset.about}"] if dataset.about else []), *notes],
        "skipped_images": [path.encode(errors="replace").decode() for path in skipped],
        "image": {"channels": dataset.channels, "size": dataset.size},
        "images": images,
        **more,
        "versions": versions,
        "machine": {"system": platform.platform(terse=True), "cores": cores()},
    }
