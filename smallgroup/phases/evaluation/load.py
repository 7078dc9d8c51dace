"""A trained model by the folder of its run."""

from pathlib import Path

from torch import nn

from smallgroup.phases.evaluation.model import read_model
from smallgroup.phases.evaluation.place import find_model


def load(run: str | Path) -> nn.Module:
    """The trained network, in eval mode on the CPU: normalised images [n, channels, size, size] to logits."""
    return read_model(find_model(run))[0]
