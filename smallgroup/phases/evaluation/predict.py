"""What a trained model says about image files."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from smallgroup.data import Augmentation, FileImages
from smallgroup.data.augment import finish
from smallgroup.data.decoding import Unreadable
from smallgroup.data.errors import DataError
from smallgroup.data.folder import images_below
from smallgroup.networks import DerivedNetwork, Outputs
from smallgroup.phases.evaluation.model import read_model
from smallgroup.phases.evaluation.place import find_model
from smallgroup.runtime.checks import check_counts
from smallgroup.runtime.text import shown

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
    """The likeliest classes of an image, the likeliest first; or why there are none."""

    image: str
    guesses: tuple[Guess, ...]
    problem: str | None = None
    """Why the image cannot be classified; the sentence goes on after its name."""


def predict(run: str | Path, images: Sequence[str | Path], *, top: int = 1) -> list[Prediction]:
    """Classify image files and all images below folders; the first that cannot be used is a DataError."""
    predictions = predict_each(run, images, top=top)
    for prediction in predictions:
        if prediction.problem is not None:
            raise DataError(f"image {shown(prediction.image)} {prediction.problem}")
    return predictions


def predict_each(run: str | Path, images: Sequence[str | Path], *, top: int = 1) -> list[Prediction]:
    """Classify image files and all images below folders; what cannot be used is among the predictions and says why.

    Images are seen exactly as test images are: the same decoder, centre, size, channels and scale.
    """
    check_counts(top=top)
    if not images:
        return []
    network, model = read_model(find_model(run))
    found: dict[int, Prediction] = {}
    paths, batch = _files(images, found), _Batch([], [])

    def classify(count: int) -> None:
        logits = _logits(network, finish(torch.cat(batch.pixels[:count]), model.mean, model.std, *_AS_TESTED))
        if not bool(torch.isfinite(logits).all()):
            raise NotFiniteError(f"the logits of a model must be finite, but those of the model in {run} are not")
        likeliest = torch.softmax(logits, dim=1).topk(min(top, len(model.classes)), dim=1)
        rows = zip(batch.places[:count], likeliest.values.tolist(), likeliest.indices.tolist(), strict=True)
        for place, shares, numbers in rows:
            guesses = tuple(Guess(model.classes[k], share) for k, share in zip(numbers, shares, strict=True))
            found[place] = Prediction(paths[place], guesses)
        del batch.places[:count], batch.pixels[:count]

    design = model.design
    files = FileImages(paths, None, size=design.image_size, channels=design.image_channels, margin=model.margin)
    for place in range(len(paths)):
        if place in found:
            continue
        try:
            batch.pixels.append(files.decode(place))
            batch.places.append(place)
        except Unreadable as error:
            found[place] = Prediction(paths[place], (), shown(error))
        if len(batch.places) == BATCH + 2:  # so that no image is left over alone, as where a test set is classified
            classify(BATCH)
    if batch.places:
        classify(len(batch.places))
    return [found[place] for place in range(len(paths))]


@dataclass
class _Batch:
    """Images that wait to be classified together, and their places among all."""

    places: list[int]
    pixels: list[Tensor]


_AS_TESTED = (torch.float32, Augmentation.none())


def _files(images: Sequence[str | Path], found: dict[int, Prediction]) -> list[str]:
    """The files that are meant, those below a folder in the order of their names; of a folder without any its own."""
    paths: list[str] = []
    for image in images:
        inside = [str(image)]
        if os.path.isdir(image):
            problem = "is a folder without images"
            try:
                inside = images_below(Path(image))
            except DataError as error:
                inside, problem = [], str(error)
            if not inside:
                found[len(paths)] = Prediction(str(image), (), problem)
                inside = [str(image)]
        paths += inside
    return paths


def _logits(network: DerivedNetwork, inputs: Tensor) -> Tensor:
    """In float64, so that the shares of thousands of classes add up."""
    with torch.no_grad():
        return Outputs.of(network(inputs.contiguous(memory_format=torch.channels_last))).logits.double()
