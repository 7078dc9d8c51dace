"""What a trained model says about image files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from smallgroup.data import FileImages, ordered
from smallgroup.networks import DerivedNetwork, Outputs
from smallgroup.phases.evaluation.load import find_model
from smallgroup.phases.evaluation.model import TrainedModel, read_model
from smallgroup.runtime.checks import check_counts

BATCH = 100


class NotFiniteError(ArithmeticError):
    """A model answers with numbers that are none."""


@dataclass(frozen=True)
class Guess:
    """A class, and how probable the model takes it to be."""

    name: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The likeliest classes of an image, the likeliest first."""

    image: str
    guesses: tuple[Guess, ...]


def predict(run: str | Path, images: Sequence[str | Path], *, top: int = 1) -> list[Prediction]:
    """Classify image files, seen exactly as test images are: the same decoder, centre, size, channels and scale."""
    check_counts(top=top)
    if not images:
        return []
    network, model = read_model(find_model(run))
    paths = [str(image) for image in images]
    predictions: list[Prediction] = []
    for inputs in _batches(paths, model):
        logits = _logits(network, inputs)
        if not bool(torch.isfinite(logits).all()):
            raise NotFiniteError(f"the logits of a model must be finite, but those of the model in {run} are not")
        likeliest = torch.softmax(logits, dim=1).topk(min(top, len(model.classes)), dim=1)
        for shares, numbers in zip(likeliest.values.tolist(), likeliest.indices.tolist(), strict=True):
            guesses = tuple(Guess(model.classes[k], share) for k, share in zip(numbers, shares, strict=True))
            predictions.append(Prediction(paths[len(predictions)], guesses))
    return predictions


def _batches(paths: list[str], model: TrainedModel) -> Iterator[Tensor]:
    design = model.design
    # Test images come with labels, and these go the same way; nobody looks at theirs.
    labels = torch.zeros(len(paths), dtype=torch.int64)
    images = FileImages(paths, labels, size=design.image_size, channels=design.image_channels, margin=model.margin)
    everything = torch.arange(len(paths))
    for inputs, _ in ordered(images, everything, batch_size=BATCH, mean=model.mean, std=model.std):
        yield inputs


def _logits(network: DerivedNetwork, inputs: Tensor) -> Tensor:
    """In float64, so that the shares of thousands of classes add up."""
    with torch.no_grad():
        return Outputs.of(network(inputs.contiguous(memory_format=torch.channels_last))).logits.double()
