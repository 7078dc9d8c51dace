"""The size that images of a folder are brought to, and why."""

from dataclasses import dataclass
from statistics import median_low

import torch

from smallgroup.data.decoding import Unreadable, header
from smallgroup.data.errors import DataError
from smallgroup.runtime import stream
from smallgroup.runtime.text import shown

SAMPLE, LARGEST_DEFAULT = 256, 64


@dataclass(frozen=True)
class Shapes:
    """Width and height of images, such as a sample of files."""

    found: tuple[tuple[int, int], ...]
    noun: str = "files"
    """What these things are called in messages."""

    @property
    def usual(self) -> int:
        """The size of images for which none is given: the median of the short sides, at most 64."""
        sides = sorted(map(min, self.found))
        return min(sides[len(sides) // 2], LARGEST_DEFAULT) if sides else LARGEST_DEFAULT

    def reason(self, given: int | None) -> str:
        """Say what the size is and why, for the given one or the usual one."""
        size, sides = given or self.usual, sorted(map(min, self.found))
        width, height = (median_low(lengths) for lengths in zip(*self.found, strict=True))
        files = f"the {self.noun} have {width}x{height}" + (" in the median" if len(set(self.found)) > 1 else "")
        if sides[0] != sides[-1]:
            files += f", their short sides {sides[0]:,} to {sides[-1]:,}"
        if given is not None:
            return f"{size}x{size}, as given by --size (data.size); {files}"
        if sides[len(sides) // 2] > LARGEST_DEFAULT:
            return f"{size}x{size}, the largest default; {files}; --size changes it"
        if set(self.found) == {(size, size)}:
            return f"{size}x{size}, the size of the {self.noun}"
        return f"{size}x{size}, the median of the short sides; {files}; --size changes it"


def read_shapes(files: list[str], *, sound: bool) -> Shapes:
    """Read the headers of some files, always the same ones; a header that cannot be read is an error if `sound`."""
    order = torch.randperm(len(files), generator=stream("folder", "size"))[:SAMPLE].tolist()
    found = []
    for index in order:
        try:
            found.append(header(files[index]))
        except Unreadable as error:
            if sound:
                raise DataError(f"image {shown(files[index])} {shown(error)}") from None
    return Shapes(tuple(found))
