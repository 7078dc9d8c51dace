"""Two kinds of images, one way to get a batch of them: in memory, or files decoded when asked for."""

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.data.augment import Parts
from smallgroup.data.colors import gray_of
from smallgroup.data.decoding import Unreadable, answer, center_box, random_box
from smallgroup.data.errors import DataError
from smallgroup.data.kept import Kept
from smallgroup.data.sending import MOST_RESIDENT
from smallgroup.runtime.constants import constant_on
from smallgroup.runtime.text import shown

_PIECE = 4096
"""Images that are resized at once: they take four bytes per number on the way."""


class Images(Protocol):
    """A set of images, however it is stored."""

    @property
    def labels(self) -> Tensor | None:
        """Return the class of each image, int64; None: there are no labels."""

    @property
    def note(self) -> str:
        """Return how they differ from the published images they are named after; empty: they do not."""

    def __len__(self) -> int: ...

    def digest(self) -> str:
        """Return a text that changes with the labels and the images, as far as these are known without decoding."""

    def fetch(self, indices: Tensor, parts: Parts | None = None) -> Tensor:
        """Return images as uint8 [n, channels, size, size]: the drawn parts of them, or the center."""

    def resized(self, size: int) -> "Images":
        """Return the same images, fetched in another size; bilinear, over all pixels that a smaller one covers."""

    def without_labels(self, size: int, channels: int) -> "Images":
        """Return the same images without their labels, in the size and the channels of others."""


class TensorImages:
    """Images in memory as one uint8 tensor [n, c, h, w], converted in size and channels when they are read."""

    def __init__(
        self,
        pixels: Tensor,
        labels: Tensor | None,
        *,
        size: int | None = None,
        channels: int | None = None,
        note: str = "",
    ) -> None:
        self.pixels = pixels
        self.labels = labels
        self.note = note
        self.size = size or pixels.shape[2]
        self.channels = channels or pixels.shape[1]

    @cached_property
    def prints(self) -> list[str]:
        """Return a text for each image that it shares with images of the same pixels."""
        rows = self.pixels.contiguous().numpy()
        return [hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in rows]

    def __len__(self) -> int:
        return len(self.pixels)

    def digest(self) -> str:
        """Return a hash of all pixels and labels."""
        return digest_of(self.pixels.contiguous().numpy().tobytes(), self.labels)

    def fetch(self, indices: Tensor, parts: Parts | None = None) -> Tensor:
        """Return images by number, in the size and the channels that are asked for."""
        if parts is None:
            return self._centers(indices) if self._kept is None else self._kept.get(indices, self._centers)
        pixels = in_channels(self.pixels.index_select(0, indices), self.channels)
        height, width = pixels.shape[2:]
        result = torch.empty(len(pixels), self.channels, self.size, self.size, dtype=torch.uint8)
        for row, draws in enumerate(parts.draws.tolist()):
            left, top, right, bottom = (int(edge) for edge in random_box(width, height, parts.smallest, draws))
            result[row] = resized_to(pixels[row : row + 1, :, top:bottom, left:right], self.size)[0]
        return result

    def resident(self, device: torch.device) -> Tensor | None:
        """Return all images as `fetch` gives them, on a device, where they stay; None if they are too many."""
        return constant_on(self._whole, device) if self.resident_bytes(device) else None

    def resident_bytes(self, device: torch.device) -> int:
        """Return how much memory the images take on a device that keeps all of them, and 0 elsewhere."""
        needed = len(self) * self.channels * self.size**2
        return 0 if device.type == "cpu" or needed > MOST_RESIDENT else needed

    @cached_property
    def _whole(self) -> Tensor:
        if self.pixels.shape[1:] == (self.channels, self.size, self.size):
            return self.pixels
        return torch.cat([self._centers(piece) for piece in torch.split(torch.arange(len(self)), _PIECE)])

    def _centers(self, indices: Tensor) -> Tensor:
        pixels = in_channels(self.pixels.index_select(0, indices), self.channels)
        left, top, right, bottom = (int(edge) for edge in center_box(pixels.shape[3], pixels.shape[2], 1))
        return resized_to(pixels[:, :, top:bottom, left:right], self.size)

    @cached_property
    def _kept(self) -> Kept | None:
        """What had to be made of the pixels; None: nothing has to be, or it would be too much."""
        shape = len(self), self.channels, self.size
        as_it_is = self.pixels.shape[1:] == (self.channels, self.size, self.size)
        return None if as_it_is or not Kept.fits(*shape) else Kept(*shape)

    def resized(self, size: int) -> "TensorImages":
        """Return the same images in another size."""
        return TensorImages(self.pixels, self.labels, size=size, channels=self.channels, note=self.note)

    def without_labels(self, size: int, channels: int) -> "TensorImages":
        """Return the same images without labels, in another size and number of channels."""
        return TensorImages(self.pixels, None, size=size, channels=channels, note=self.note)

    def chosen(self, places: Tensor) -> "TensorImages":
        """Return some of the images, with their labels."""
        labels = None if self.labels is None else self.labels[places]
        return TensorImages(self.pixels[places], labels, size=self.size, channels=self.channels, note=self.note)


class FileImages:
    """Image files: small sets are decoded once, others each time they are asked for."""

    def __init__(
        self,
        paths: list[str],
        labels: Tensor | None,
        *,
        size: int,
        channels: int = 3,
        margin: float = 1.0,
        note: str = "",
        checked: bool = False,
        prints: Mapping[str, str] | None = None,
        skipped: Sequence[str] = (),
    ) -> None:
        self.checked = checked
        """Whether all files were decoded once."""
        self.prints = prints or {}
        """Of files that have the same pixels as another one: a text that they share."""
        self.skipped = tuple(skipped)
        """Files that would belong to it, but cannot be decoded."""
        self.paths = paths
        self.labels = labels
        self.note = note
        self.size = size
        self.channels = channels
        self.margin = margin

    def __len__(self) -> int:
        return len(self.paths)

    def digest(self) -> str:
        """Return a text of the labels and the last two parts of the file names, so that a folder may be moved."""
        names = "\0".join("/".join(path.rsplit("/", 2)[-2:]) for path in self.paths)
        return digest_of(names.encode(errors="surrogateescape"), self.labels)

    def request(self, indices: Tensor, parts: Parts | None = None) -> dict[str, object]:
        """Return what is to be decoded in plain values, the same for a worker and for this process."""
        return {
            "paths": [self.paths[index] for index in indices.tolist()],
            "draws": None if parts is None else parts.draws.tolist(),
            "smallest": None if parts is None else parts.smallest,
            "size": self.size,
            "channels": self.channels,
            "margin": self.margin,
        }

    def fetch(self, indices: Tensor, parts: Parts | None = None) -> Tensor:
        """Decode images by number."""
        if parts is None and self._kept is not None:
            return self._kept.get(indices, self._decoded)
        return self._decoded(indices, parts)

    def _decoded(self, indices: Tensor, parts: Parts | None = None) -> Tensor:
        try:
            return torch.from_numpy(answer(self.request(indices, parts)))
        except Unreadable as error:
            raise DataError(f"image {shown(error)}") from None

    @cached_property
    def _kept(self) -> Kept | None:
        """What was decoded; None: all of it would be too much to keep."""
        shape = len(self), self.channels, self.size
        return Kept(*shape) if Kept.fits(*shape) else None

    def resized(self, size: int) -> "FileImages":
        """Return the same files, decoded to another size."""
        other = copy(self)
        other.size = size
        vars(other).pop("_kept", None)  # in the size it had
        return other

    def without_labels(self, size: int, channels: int) -> "FileImages":
        """Return the same files without labels, decoded to another size and number of channels."""
        rest: Any = {"margin": self.margin, "note": self.note, "skipped": self.skipped}
        return FileImages(self.paths, None, size=size, channels=channels, **rest)


def skipped_of(*sets: Images) -> tuple[str, ...]:
    """Return the image files that cannot be decoded and are left out of some sets, each once."""
    return tuple(dict.fromkeys(path for one in sets if isinstance(one, FileImages) for path in one.skipped))


def digest_of(content: bytes, labels: Tensor | None) -> str:
    """Return a text that changes with the content of images and with their labels."""
    known = b"" if labels is None else labels.numpy().tobytes()
    return hashlib.sha256(content + known).hexdigest()[:16]


def in_channels(pixels: Tensor, channels: int) -> Tensor:
    """Return uint8 images [n, c, h, w] with so many channels: gray where they have another number."""
    if pixels.shape[1] == channels:
        return pixels
    return gray_of(pixels).to(torch.uint8).expand(-1, channels, -1, -1)


def resized_to(pixels: Tensor, size: int) -> Tensor:
    """Return uint8 images [n, c, h, w] in size x size pixels; bilinear, over all pixels that a smaller one covers."""
    if pixels.shape[2:] == (size, size):
        return pixels
    scaled = functional.interpolate(pixels.float(), (size, size), mode="bilinear", antialias=True)
    return scaled.round().clamp(0, 255).to(torch.uint8)
