"""What a trained model says about image files."""

import os
from collections.abc import Iterator, Sequence
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
    """Why the image cannot be classified; it continues the sentence after the image's name."""

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
    """Classify images, and all images in folders; an image that cannot be used says why in its `problem`.

    Images are seen exactly as test images are: the same decoder, center, size, channels and scale.

    Args:
        run: the folder of a run, or what `load` made of it.
        images: paths of files or folders, PIL images, uint8 arrays, or a single one of them.
        top: how many classes per image, the likeliest first.
    """
    check_counts(top=top)
    given = [images] if isinstance(images, str | Path | Image.Image | np.ndarray) else images
    return list(Queue(run, given, top)) if len(given) else []


class Queue:
    """Images that are classified batch by batch while somebody iterates: memory does not grow with their number.

    The arguments are those of `predict`, and the name of the device on which a run's model is loaded.
    """

    def __init__(self, run: str | Path | nn.Module, images: Sequence[AnyImage], top: int, device: str = "cpu") -> None:
        self.top = top
        self._whose = "that was given" if isinstance(run, nn.Module) else f"in {run}"
        self._model = _model(run, device)
        self._problems: dict[int, Prediction] = {}
        self._sources = _sources(images, self._problems)

    def __len__(self) -> int:
        """Return how many images there are."""
        return len(self._sources)

    def __iter__(self) -> Iterator[Prediction]:
        """Yield the predictions in the order of the images."""
        found, batch, first = dict(self._problems), _Waiting([], []), 0
        for place, source in enumerate(self._sources):
            if place not in found:
                try:
                    batch.pixels.append(self._model.preprocess.pixels(source))
                    batch.places.append(place)
                except Unreadable as error:
                    found[place] = Prediction(name_of(source, place), (), shown(error))
            last = place + 1 == len(self._sources)
            # Two more than a batch, so that no image is left over alone, as where a test set is classified.
            if batch.places and (last or len(batch.places) == BATCH + 2):
                found.update(self._classified(batch, len(batch.places) if last else BATCH))
            while first in found:
                yield found.pop(first)
                first += 1

    def _classified(self, batch: "_Waiting", count: int) -> Iterator[tuple[int, Prediction]]:
        """Classify the first images of a batch, and take them out of it."""
        model, places = self._model, batch.places[:count]
        logits = _logits(model, model.preprocess.finish(torch.cat(batch.pixels[:count])))
        del batch.places[:count], batch.pixels[:count]
        if not bool(torch.isfinite(logits).all()):
            raise NotFiniteError(f"the logits of a model must be finite, but those of the model {self._whose} are not")
        likeliest = torch.softmax(logits, dim=1).topk(min(self.top, len(model.classes)), dim=1)
        for place, shares, numbers in zip(places, likeliest.values.tolist(), likeliest.indices.tolist(), strict=True):
            guesses = tuple(Guess(model.classes[k], share) for k, share in zip(numbers, shares, strict=True))
            yield place, Prediction(name_of(self._sources[place], place), guesses)


@dataclass
class _Waiting:
    """Images that wait to be classified together, and their places among all."""

    places: list[int]
    pixels: list[Tensor]


def _model(run: str | Path | nn.Module, device: str) -> LoadedModel:
    if not isinstance(run, nn.Module):
        return load(run, device)
    if not isinstance(getattr(run, "preprocess", None), Preprocess):
        raise TypeError(f"a model must come from smallgroup.load, but got a {type(run).__name__} that does not")
    if run.training:
        raise ValueError("a model must be in eval mode to predict, but it is in train mode: call model.eval()")
    return cast(LoadedModel, run)


def _sources(images: Sequence[AnyImage], found: dict[int, Prediction]) -> list[AnyImage]:
    """Return the images to classify, those below a folder sorted by name; of a folder without any its own."""
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
    """Compute logits in float64, so that the shares of thousands of classes add up."""
    with torch.no_grad():
        inputs = inputs.to(next(model.parameters()).device).contiguous(memory_format=torch.channels_last)
        return Outputs.of(model(inputs)).logits.cpu().double()  # some devices have no float64
