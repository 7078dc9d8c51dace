"""A trained model by the folder of its run."""

from pathlib import Path
from typing import cast

from torch import nn

from smallgroup.phases.training.model import read_model
from smallgroup.phases.training.place import find_model
from smallgroup.phases.training.preprocess import Preprocess


class LoadedModel(nn.Module):
    """The type of what `load` returns, for type checkers: the network itself, with two attributes more."""

    classes: tuple[str, ...]
    preprocess: Preprocess


def load(run: str | Path) -> LoadedModel:
    """Return the trained network, in eval mode on the CPU: inputs [n, channels, size, size] to logits [n, classes].

    `model.classes` are the names of the classes, and `model.preprocess(image)` is the input of one image: a path, a PIL
    image or a uint8 array, seen as test images are.
    """
    network, model = read_model(find_model(run))
    loaded = cast(LoadedModel, network)
    loaded.classes, loaded.preprocess = model.classes, Preprocess.of(model)
    return loaded
