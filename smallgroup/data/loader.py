"""Batches as a function of the step: whoever knows the seed and the step has the batch, after any interruption."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import count, pairwise
from typing import Any, Generic, Literal, TypeVar, overload

import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation, Draws, Parts, augment_pixels, cutout, draw, draw_parts, normalize
from smallgroup.data.errors import DataError
from smallgroup.data.images import FileImages, Images, TensorImages
from smallgroup.data.sending import one_ahead, send, send_rows
from smallgroup.data.workers import answers
from smallgroup.runtime import stream

LabeledImages = tuple[Tensor, Tensor]
ChosenRows = Callable[[int], Tensor | None]
"""Which images of a batch of so many are wanted; None: all."""
BatchType = TypeVar("BatchType", LabeledImages, Tensor)


def whole_batch(_: int) -> None:
    """Want all images of a batch."""


class Stream(Generic[BatchType]):
    """Endless batches for training, shuffled anew in every epoch.

    Every image occurs exactly once per epoch: the last batch of an epoch holds what is left. A single image left
    over joins the batch before it (batch norm has nothing to normalize in a batch of one).
    A batch depends on the seed, the purpose, the step and the images; not on workers, threads or earlier batches.
    Streams that differ in `view` alone have the same images in the same order, with augmentations of their own.
    `rows` selects the images of a batch that are read, given its size; they are the same as in the whole batch.
    """

    @overload
    def __init__(
        self: "Stream[LabeledImages]", images: Images, indices: Tensor, *, batch_size: int, seed: int, purpose: str,
        augmentation: Augmentation, mean: Sequence[float], std: Sequence[float], labeled: Literal[True] = True,
        workers: int = 0, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, view: str = "",
        rows: ChosenRows = whole_batch,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self: "Stream[Tensor]", images: Images, indices: Tensor, *, batch_size: int, seed: int, purpose: str,
        augmentation: Augmentation, mean: Sequence[float], std: Sequence[float], labeled: Literal[False],
        workers: int = 0, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, view: str = "",
        rows: ChosenRows = whole_batch,
    ) -> None: ...  # fmt: skip

    def __init__(
        self,
        images: Images,
        indices: Tensor,
        *,
        batch_size: int,
        seed: int,
        purpose: str,
        augmentation: Augmentation,
        mean: Sequence[float],
        std: Sequence[float],
        labeled: bool = True,
        workers: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        view: str = "",
        rows: ChosenRows = whole_batch,
    ) -> None:
        if batch_size < 1 or workers < 0:
            raise DataError(
                f"batch_size >= 1 and workers >= 0 must hold, but got batch_size={batch_size}, workers={workers}"
            )
        if len(indices) < batch_size:
            raise DataError(f"a batch for {purpose} needs {batch_size} images, but there are only {len(indices)}")
        if labeled and images.labels is None:
            raise DataError(f"images for {purpose} must have labels, but they have none")
        self.images, self.indices, self.labeled, self.workers = images, indices, labeled, workers
        self.seed, self.purpose, self.augmentation = seed, purpose, augmentation
        self._view = (view,) if view else ()
        self._rows = rows
        self.mean, self.std, self.device, self.dtype = tuple(mean), tuple(std), torch.device(device), dtype
        self._bounds = batch_bounds(len(indices), batch_size)
        self._order: tuple[int, Tensor] = (-1, indices)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self._bounds)

    def indices_of(self, step: int) -> Tensor:
        """Return which images make up the batch of a step, counted from 0 over all epochs."""
        if step < 0:
            raise DataError(f"0 <= step must hold for a batch, but got step={step}")
        epoch, place = divmod(step, len(self))
        if self._order[0] != epoch:
            shuffled = torch.randperm(len(self.indices), generator=stream(self.seed, "order", self.purpose, epoch))
            self._order = (epoch, self.indices[shuffled])
        low, high = self._bounds[place]
        return self._order[1][low:high]

    def batch(self, step: int) -> BatchType:
        """Return inputs and labels of a step, or the inputs alone."""
        indices, parts = self._wanted(step)
        resident = resident_images(self.images, self.device) if parts is None else None
        return self._finished(step, self.images.fetch(indices, parts) if resident is None else resident, resident)

    def batches(self, start: int = 0) -> Generator[BatchType, None, None]:
        """Yield the batches from a step on, without end; workers, if there are any, decode files ahead.

        Images in memory need no workers. Closing or dropping the iterator ends the worker processes.
        """
        steps = count(start)
        if not self.workers or not isinstance(self.images, FileImages):
            yield from map(self.batch, steps)
            return
        pinned = self.device.type == "cuda"
        with closing(answers(self._requests(start), self.workers, pinned=pinned)) as decoded:
            finished = map(self._finished, steps, decoded)
            yield from finished if self.device.type == "cpu" else one_ahead(finished)

    def _requests(self, start: int) -> Iterator[dict[str, object]]:
        assert isinstance(self.images, FileImages)
        for step in count(start):
            yield self.images.request(*self._wanted(step))

    def _wanted(self, step: int) -> tuple[Tensor, Parts | None]:
        """Return which images are read, and which part of each."""
        indices = self.indices_of(step)
        parts, rows = draw_parts(self.augmentation, len(indices), *self._key(step)), self._rows(len(indices))
        if rows is None:
            return indices, parts
        return indices[rows], None if parts is None else parts._replace(draws=parts.draws[rows])

    def _finished(self, step: int, pixels: Tensor, resident: Tensor | None = None) -> BatchType:
        """Build the batch from its pixels, or from all images if these are resident on the device."""
        places = self.indices_of(step)
        images, rows = len(places), self._rows(len(places))
        places = places if rows is None else places[rows]
        labels = self.images.labels[places] if self.labeled and self.images.labels is not None else None
        channels, height, width = pixels.shape[1:]
        draws: Draws = draw(self.augmentation, (images, channels, height, width), *self._key(step))
        if rows is not None:
            draws = Draws(*(None if each is None else each[rows] for each in draws))
        if self.device.type != "cpu":
            there = send_rows([places, labels, *draws], self.device)
            labels, draws = there[1], Draws(*there[2:])
            assert there[0] is not None
            pixels = send(pixels, self.device) if resident is None else resident.index_select(0, there[0])
        pixels = augment_pixels(pixels, self.augmentation, draws)
        inputs = normalize(pixels, self.mean, self.std, self.dtype)
        if draws.centers is not None:
            inputs = cutout(inputs, draws.centers, self.augmentation.cutout)
        return inputs if labels is None else (inputs, labels)  # type: ignore[return-value]

    def _key(self, step: int) -> tuple[int | str, ...]:
        return (self.seed, "augment", self.purpose, step, *self._view)


class Reader(Generic[BatchType]):
    """The batches of a stream by step. When steps are read in order, as a run does, files are decoded ahead."""

    def __init__(self, stream_: Stream[BatchType]) -> None:
        self.stream: Stream[Any] = stream_
        self._ahead: Generator[BatchType, None, None] | None = None
        self._next = -1

    def batch(self, step: int) -> BatchType:
        """Return the batch of a step, a function of its number."""
        if self._ahead is None or step != self._next:
            self.close()
            self._ahead, self._next = self.stream.batches(step), step
        self._next += 1
        return next(self._ahead)

    def close(self) -> None:
        """End the worker processes, if there are any; they also end when the reader is garbage-collected."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


def ordered(
    images: Images,
    indices: Tensor,
    *,
    batch_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    workers: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Generator[LabeledImages, None, None]:
    """Return a stream of every image once, in the given order and unchanged, for validation passes and tests."""
    if not len(indices):
        raise DataError("images to be classified must be there and have labels, but there are none")
    if batch_size < 1:
        raise DataError(f"batch_size >= 1 must hold, but got batch_size={batch_size}")
    pieces = [indices[low:high] for low, high in batch_bounds(len(indices), batch_size)]
    yield from batches_of(images, pieces, mean=mean, std=std, workers=workers, device=device, dtype=dtype)


def batches_of(
    images: Images,
    pieces: Sequence[Tensor],
    *,
    mean: Sequence[float],
    std: Sequence[float],
    workers: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Generator[LabeledImages, None, None]:
    """Yield images as they are, in the given batches."""
    if images.labels is None:
        raise DataError("images to be classified must be there and have labels, but there are none")
    labels = images.labels
    decoded: Generator[Tensor, None, None]
    where = torch.device(device)
    resident = resident_images(images, where)
    if resident is not None:
        decoded = (resident.index_select(0, piece.to(where)) for piece in pieces)
    elif workers and isinstance(images, FileImages):
        decoded = answers(map(images.request, pieces), workers, pinned=where.type == "cuda")
    else:
        decoded = (images.fetch(piece) for piece in pieces)
    with closing(decoded):
        for piece, pixels in zip(pieces, decoded, strict=True):
            yield normalize(send(pixels, where), mean, std, dtype), labels[piece].to(where)


def resident_images(images: Images, device: torch.device) -> Tensor | None:
    """Return a whole set of images on a device other than the CPU, if they are in memory and few enough."""
    return images.resident(device) if isinstance(images, TensorImages) else None


def resident_bytes(sets: Iterable[Images], device: torch.device) -> int:
    """Return how much memory these sets of images take on a device that keeps them, each counted once."""
    distinct = {id(images): images for images in sets}.values()
    return sum(images.resident_bytes(device) for images in distinct if isinstance(images, TensorImages))


def batch_bounds(total: int, batch_size: int) -> list[tuple[int, int]]:
    """Return where batches begin and end: all full but the last; a single image left over joins the batch before it."""
    edges = [*range(0, total, batch_size), total]
    if len(edges) > 2 and edges[-1] - edges[-2] == 1 and batch_size > 1:
        del edges[-2]
    return list(pairwise(edges))
