"""Images that somebody else keeps, such as a `torch.utils.data.Dataset`: read when they are asked for."""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smallgroup.data.augment import Parts
from smallgroup.data.decoding import center_box, random_box
from smallgroup.data.images import digest_of, in_channels, resized_to
from smallgroup.data.kept import Kept


@dataclass(frozen=True)
class Seen:
    """The knowledge about images after each was read."""

    shapes: tuple[tuple[int, int, int], ...]
    """Channels, height and width of each."""
    prints: tuple[str, ...]
    """A text for each image, equal for images with the same pixels."""

    @staticmethod
    def of(count: int, read: Callable[[int], Tensor]) -> "Seen":
        """Read every image once, and keep its shape and a digest of its pixels."""
        shapes, prints = [], []
        for place in range(count):
            pixels = read(place)
            channels, height, width = pixels.shape
            shapes.append((channels, height, width))
            prints.append(print_of(pixels))
        return Seen(tuple(shapes), tuple(prints))

    def at(self, places: Sequence[int]) -> "Seen":
        """Return the same of some of the images."""
        return Seen(tuple(self.shapes[place] for place in places), tuple(self.prints[place] for place in places))


def print_of(pixels: Tensor) -> str:
    """Return a text that images of the same pixels share."""
    return hashlib.blake2b(pixels.contiguous().numpy().tobytes(), digest_size=16).hexdigest()


class ReadImages:
    """Images by a function that reads one of them, uint8 [channels, height, width]; sizes may differ."""

    def __init__(
        self,
        read: Callable[[int], Tensor],
        seen: Seen,
        labels: Tensor | None,
        *,
        size: int,
        channels: int,
        note: str = "",
    ) -> None:
        self.read, self.seen, self.labels, self.note = read, seen, labels, note
        self.size, self.channels = size, channels

    @property
    def prints(self) -> Sequence[str]:
        """For each image a text that it shares with those that have the same pixels."""
        return self.seen.prints

    def __len__(self) -> int:
        return len(self.seen.prints)

    def digest(self) -> str:
        """Return a hash of the labels, shapes and pixels as they were read first."""
        return digest_of(repr((self.seen.shapes, self.seen.prints)).encode(), self.labels)

    def fetch(self, indices: Tensor, parts: Parts | None = None) -> Tensor:
        """Return images by number; those that are not kept in memory are read again."""
        if parts is None and self._kept is not None:
            return self._kept.get(indices, self._made)
        return self._made(indices, parts)

    def _made(self, indices: Tensor, parts: Parts | None = None) -> Tensor:
        result = torch.empty(len(indices), self.channels, self.size, self.size, dtype=torch.uint8)
        for row, index in enumerate(indices.tolist()):
            pixels = in_channels(self.read(index)[None], self.channels)
            height, width = pixels.shape[2:]
            box = center_box(width, height, 1)
            if parts is not None:
                box = random_box(width, height, parts.smallest, parts.draws[row].tolist())
            left, top, right, bottom = (int(edge) for edge in box)
            result[row] = resized_to(pixels[:, :, top:bottom, left:right], self.size)[0]
        return result

    @cached_property
    def _kept(self) -> Kept | None:
        """What was read; None: all of it would be too much to keep."""
        shape = len(self), self.channels, self.size
        return Kept(*shape) if Kept.fits(*shape) else None

    def chosen(self, places: Tensor) -> "ReadImages":
        """Return some of the images, with their labels."""
        read, numbers = self.read, places.tolist()
        labels = None if self.labels is None else self.labels[places]
        return ReadImages(
            lambda place: read(numbers[place]),
            self.seen.at(numbers),
            labels,
            size=self.size,
            channels=self.channels,
            note=self.note,
        )

    def resized(self, size: int) -> "ReadImages":
        """Return the same images in another size."""
        return self._in(size, self.channels, self.labels)

    def without_labels(self, size: int, channels: int) -> "ReadImages":
        """Return the same images without labels, in another size and number of channels."""
        return self._in(size, channels, None)

    def _in(self, size: int, channels: int, labels: Tensor | None) -> "ReadImages":
        other = copy(self)
        other.size, other.channels, other.labels = size, channels, labels
        vars(other).pop("_kept", None)  # in the size it had
        return other
