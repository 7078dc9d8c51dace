"""Where the trained model of a run lies, and what its result may say; known before torch is loaded."""

import os
from pathlib import Path

from smallgroup.runtime.text import shown

WEIGHTS, ABOUT = "model.safetensors", "model.json"
MISTAKES = "mistakes.json"
"""Misclassified test images of a training, for its report."""
TRAINING = "training"
"""The folder of the training within that of a whole run."""
HELD_OUT = "not looked at: the errors are those of the held-out images"
"""What a result says of test images that a training leaves alone."""


def find_model(run: str | Path) -> Path:
    """Return the folder of the trained model: that of a training, or of a run that contains one."""
    for folder in (Path(run), Path(run) / TRAINING):
        if os.path.isfile(folder / ABOUT):  # which is False also for what can be no path
            return folder
    raise ValueError(
        f"a run must have a trained model, {ABOUT} in its folder or in {TRAINING}/, but {shown(run)} has none"
    )
