"""What files of several formats are made of: the graph of a trained model, and what one has to know to use it."""

import copy
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

from smallgroup.phases.training.model import TrainedModel
from smallgroup.spaces.genotypes import to_plain
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.version import __version__


def about(model: TrainedModel) -> dict[str, Any]:
    """Return what an export says about itself: classes, sizes, normalization and origin."""
    return {
        "producer": f"smallgroup {__version__}",
        "dataset": model.dataset,
        "classes": list(model.classes),
        "image_size": model.design.images.size,
        "image_channels": model.design.images.channels,
        "mean": list(model.mean),
        "std": list(model.std),
        "margin": model.margin,
        "input": "images: (pixels / 255 - mean) / std per channel, of the centered square whose side is the short side "
        "of the image divided by margin, resized to image_size",
        "output": "logits: one number per class, in the order of classes; their softmax are probabilities",
        "space": model.genotype.space,
        "genotype": to_plain(model.genotype),
    }


def program_of(network: DerivedNetwork, model: TrainedModel) -> ExportedProgram:
    """Return the graph of a network for any number of images."""
    size, channels = model.design.images.size, model.design.images.channels
    # The archive of a pt2 file wants weights that are whole in memory, in the order of their dimensions.
    plain = copy.deepcopy(network).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    images = torch.zeros(2, channels, size, size)  # two: torch takes a dimension of one for a constant
    program = torch.export.export(plain, (images,), dynamic_shapes=({0: Dim("batch", min=1)},))
    for node in program.graph.nodes:
        # Where on this machine a line of code stands is nobody's business who gets the file.
        node.meta.pop("stack_trace", None)
    return program
