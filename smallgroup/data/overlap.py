"""Images that occur in two parts of a dataset, by content: errors on the second part are then too low."""

from collections.abc import Sequence

from torch import Tensor

from smallgroup.data.images import FileImages, Images, TensorImages
from smallgroup.data.read_images import ReadImages
from smallgroup.runtime.text import shown

NAMED = 3
"""How many pairs of equal images a note names at most."""


def overlap_note(of: tuple[str, Images, Sequence[int]], among: tuple[str, Images, Sequence[int]]) -> tuple[str, ...]:
    """Return a note on images of one part that also occur in another, each part with its name; none if none do."""
    found = overlap(of[1:], among[1:])
    if not found:
        return ()
    names = "; ".join(f"{_name(of[1], one)} = {_name(among[1], other)}" for one, other in found[:NAMED])
    more = f"; and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    return (f"{len(found):,} of {len(of[2]):,} {of[0]} images also occur among the {among[0]} images: {names}{more}",)


def overlap(of: tuple[Images, Sequence[int]], among: tuple[Images, Sequence[int]]) -> list[tuple[int, int]]:
    """Return images of the first part that have the pixels of one of the second, each with the first such one."""
    first: dict[str, int] = {}
    for text, index in zip(_contents(*among), among[1], strict=True):
        if text is not None:
            first.setdefault(text, index)
    pairs = zip(_contents(*of), of[1], strict=True)
    return [(index, first[text]) for text, index in pairs if text is not None and text in first]


def everything(images: Images) -> range:
    """Return the indices of all images."""
    return range(len(images))


def places(indices: Tensor) -> list[int]:
    """Return indices as plain integers, for comparing and printing."""
    found: list[int] = indices.tolist()
    return found


def _contents(images: Images, indices: Sequence[int]) -> list[str | None]:
    """Return a text for the pixels of each image; None for a file that is like no other, or was not decoded."""
    if isinstance(images, FileImages):
        return [images.prints.get(images.paths[index]) for index in indices]
    assert isinstance(images, TensorImages | ReadImages)
    return [images.prints[index] for index in indices]


def _name(images: Images, index: int) -> str:
    if isinstance(images, FileImages):
        return shown("/".join(images.paths[index].rsplit("/", 3)[-3:]))
    return f"number {index:,}"
