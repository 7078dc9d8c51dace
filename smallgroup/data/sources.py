"""Open datasets and unlabeled images by the names that users give."""

from dataclasses import replace
from pathlib import Path

from smallgroup.data.checking import BadImages
from smallgroup.data.dataset import Dataset
from smallgroup.data.errors import DataError
from smallgroup.data.images import Images
from smallgroup.data.names import source_of
from smallgroup.runtime.text import quoted, shown


def open_dataset(name: str, root: Path, *, size: int | None = None, bad: BadImages | None = None) -> Dataset:
    """Open labeled images by a name of `smallgroup list datasets`; size None is the data's own.

    With `bad`, all image files are decoded first; those that cannot be decoded are refused or skipped.
    """
    if size is not None and not 1 <= size <= 4096:
        raise DataError(f"1 <= size <= 4096 must hold for the size of images in pixels, but got size={size}")
    source = source_of(name, root)
    source.require()
    dataset = source.open(size, bad)
    if not isinstance(dataset, Dataset):
        got = shown(type(dataset).__name__)
        raise DataError(f"dataset {quoted(name)} must open as a smallgroup.data.Dataset, but it opens as {got}")
    if size is not None and dataset.size != size:
        raise DataError(
            f"dataset {quoted(name)} must open in the size that is asked for, {size}, but it has {dataset.size}"
        )
    # Results are known by the name that a config has; a path may be written in several ways.
    return dataset if dataset.name.partition(":")[0] == source.name else replace(dataset, name=name)


def open_unlabeled(name: str, root: Path, like: Dataset, bad: BadImages | None = None) -> Images:
    """Open the training images of another dataset, or any images in `folder:PATH`, without labels.

    They come in the size and number of channels of the labeled dataset, whose statistics also normalize them.
    """
    source = source_of(name, root)
    source.require("unlabeled images")
    return source.open_unlabeled(like, bad)
