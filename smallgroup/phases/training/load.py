"""A trained model by the folder of its run."""

from pathlib import Path
from typing import cast

from torch import nn

from smallgroup.phases.training.model import read_model
from smallgroup.phases.training.place import find_model
from smallgroup.phases.training.preprocess import Preprocess
from smallgroup.runtime.device import choose_device


class LoadedModel(nn.Module):
    """The type of what `load` returns, for type checkers: the network itself, with two attributes more."""

    classes: tuple[str, ...]
    preprocess: Preprocess


def load(run: str | Path, device: str = "cpu") -> LoadedModel:
    """Return the trained network, in eval mode on a device: inputs [n, channels, size, size] to logits [n, classes].

    `model.classes` are the names of the classes, and `model.preprocess(image)` is the input of one image: a path, a PIL
    image or a uint8 array, seen as test images are. Devices have names as in `--device`.
    """
    where = choose_device(device)
    network, model = read_model(find_model(run))
    loaded = cast(LoadedModel, network.to(where))
    loaded.classes, loaded.preprocess = model.classes, Preprocess.of(model)
    return loaded
