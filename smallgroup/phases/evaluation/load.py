"""A trained model by the folder of its run."""

import os
from pathlib import Path

from torch import nn

from smallgroup.phases.evaluation.model import ABOUT, read_model
from smallgroup.runtime.text import shown

TRAINING = "training"
"""The folder of the training within that of a whole run."""


def find_model(run: str | Path) -> Path:
    """The folder of the trained model: that of a training, or of a run with a training in it."""
    for folder in (Path(run), Path(run) / TRAINING):
        if os.path.isfile(folder / ABOUT):  # which is False also for what can be no path
            return folder
    raise ValueError(
        f"a run must have a trained model, {ABOUT} in its folder or in {TRAINING}/, but {shown(run)} has none"
    )


def load(run: str | Path) -> nn.Module:
    """The trained network, in eval mode on the CPU: normalised images [n, channels, size, size] to logits."""
    return read_model(find_model(run))[0]
