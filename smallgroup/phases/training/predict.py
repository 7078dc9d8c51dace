"""What a trained model says about image files."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from smallgroup.data.decoding import Unreadable
from smallgroup.data.errors import DataError
from smallgroup.data.folder import images_below
from smallgroup.phases.training.load import LoadedModel, load
from smallgroup.phases.training.preprocess import AnyImage, Preprocess, name_of
from smallgroup.runtime.checks import check_counts
from smallgroup.runtime.text import shown
from smallgroup.spaces.outputs import Outputs

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

    @property
    def class_name(self) -> str:
        """The likeliest class; a DataError if the image cannot be classified."""
        return self._first.name

    @property
    def probability(self) -> float:
        """The probability of the likeliest class; a DataError if the image cannot be classified."""
        return self._first.probability

    @property
    def _first(self) -> Guess:
        if self.problem is not None:
            raise DataError(f"image {shown(self.image)} {self.problem}")
        return self.guesses[0]


def predict(run: str | Path | nn.Module, images: AnyImage | Sequence[AnyImage], *, top: int = 1) -> list[Prediction]:
    """Classify images, and all images below folders; those that cannot be used say why in their `problem`.

    Images are seen exactly as test images are: the same decoder, centre, size, channels and scale.

    Args:
        run: the folder of a run, or what `load` made of it.
        images: paths of files or folders, PIL images, uint8 arrays, or a single one of them.
        top: how many classes per image, the likeliest first.
    """
    check_counts(top=top)
    given = [images] if isinstance(images, str | Path | Image.Image | np.ndarray) else images
    if not len(given):
        return []
    model = _model(run)
    found: dict[int, Prediction] = {}
    sources, batch = _sources(given, found), _Batch([], [])
    names = [name_of(source, place) for place, source in enumerate(sources)]

    def classify(count: int) -> None:
        logits = _logits(model, model.preprocess.finish(torch.cat(batch.pixels[:count])))
        if not bool(torch.isfinite(logits).all()):
            whose = "that was given" if isinstance(run, nn.Module) else f"in {run}"
            raise NotFiniteError(f"the logits of a model must be finite, but those of the model {whose} are not")
        likeliest = torch.softmax(logits, dim=1).topk(min(top, len(model.classes)), dim=1)
        rows = zip(batch.places[:count], likeliest.values.tolist(), likeliest.indices.tolist(), strict=True)
        for place, shares, numbers in rows:
            guesses = tuple(Guess(model.classes[k], share) for k, share in zip(numbers, shares, strict=True))
            found[place] = Prediction(names[place], guesses)
        del batch.places[:count], batch.pixels[:count]

    for place, source in enumerate(sources):
        if place in found:
            continue
        try:
            batch.pixels.append(model.preprocess.pixels(source))
            batch.places.append(place)
        except Unreadable as error:
            found[place] = Prediction(names[place], (), shown(error))
        if len(batch.places) == BATCH + 2:  # so that no image is left over alone, as where a test set is classified
            classify(BATCH)
    if batch.places:
        classify(len(batch.places))
    return [found[place] for place in range(len(sources))]


@dataclass
class _Batch:
    """Images that wait to be classified together, and their places among all."""

    places: list[int]
    pixels: list[Tensor]


def _model(run: str | Path | nn.Module) -> LoadedModel:
    if not isinstance(run, nn.Module):
        return load(run)
    if not isinstance(getattr(run, "preprocess", None), Preprocess):
        raise TypeError(f"a model must come from smallgroup.load, but got a {type(run).__name__} that does not")
    if run.training:
        raise ValueError("a model must be in eval mode to predict, but it is in train mode: call model.eval()")
    return cast(LoadedModel, run)


def _sources(images: Sequence[AnyImage], found: dict[int, Prediction]) -> list[AnyImage]:
    """The images that are meant, those below a folder in the order of their names; of a folder without any its own."""
    sources: list[AnyImage] = []
    for image in images:
        inside: Sequence[AnyImage] = [image]
        if isinstance(image, str | Path) and os.path.isdir(image):
            problem = "is a folder without images"
            try:
                inside = images_below(Path(image))
            except DataError as error:
                inside, problem = [], str(error)
            if not inside:
                found[len(sources)] = Prediction(str(image), (), problem)
                inside = [image]
        sources += inside
    return sources


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    """In float64, so that the shares of thousands of classes add up."""
    with torch.no_grad():
        inputs = inputs.to(next(model.parameters()).device).contiguous(memory_format=torch.channels_last)
        return Outputs.of(model(inputs)).logits.cpu().double()  # some devices have no float64
