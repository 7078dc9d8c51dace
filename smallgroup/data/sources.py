"""Data by name."""

from pathlib import Path

from smallgroup.data.checking import BadImages, Checked, skipped_note, usable
from smallgroup.data.cifar import CIFAR10, CIFAR100, open_cifar
from smallgroup.data.dataset import Dataset
from smallgroup.data.digits import open_digits
from smallgroup.data.errors import DataError
from smallgroup.data.folder import images_below, open_folder, open_imagenet
from smallgroup.data.images import FileImages, Images, TensorImages
from smallgroup.data.names import check_name, is_folder, require_data
from smallgroup.runtime.text import shown


def open_dataset(name: str, root: Path, *, size: int | None = None, bad: BadImages | None = None) -> Dataset:
    """Labelled images: `digits`, `cifar10`, `cifar100`, `imagenet` or `folder:PATH`; size None is the data's own.

    With `bad`, image files are all decoded first, and those that cannot be are refused or left out.
    """
    if size is not None and not 1 <= size <= 4096:
        raise DataError(f"1 <= size <= 4096 must hold for the size of images in pixels, but got size={size}")
    check_name(name)
    if name == "digits":
        return open_digits(size)
    if name == "cifar10":
        return open_cifar(CIFAR10, root, size)
    if name == "cifar100":
        return open_cifar(CIFAR100, root, size)
    if name == "imagenet":
        return open_imagenet(root, size, bad)
    return open_folder(require_data(name, root), size, bad)


def open_unlabeled(name: str, root: Path, like: Dataset, bad: BadImages | None = None) -> Images:
    """The training images of another dataset, or any images below `folder:PATH`, without labels.

    They come in the size and number of channels of the labelled dataset, whose statistics also normalise them.
    """
    check_name(name)
    if is_folder(name):
        folder = require_data(name, root, "unlabelled images")
        if not (files := images_below(folder)):
            raise DataError(f"{shown(folder)} must hold images for the unlabelled set, but there is none in it")
        checked = Checked() if bad is None else usable(files, bad, folder)
        files = [path for path in files if path not in checked.bad]
        if not files:
            raise DataError(f"{shown(folder)} must hold images for the unlabelled set, but none can be decoded")
        note = "".join(skipped_note(checked))
        skipped = tuple(checked.bad)
        return FileImages(files, None, size=like.size, channels=like.channels, note=note, skipped=skipped)
    images = open_dataset(name, root, bad=bad).train
    if isinstance(images, FileImages):
        return FileImages(
            images.paths,
            None,
            size=like.size,
            channels=like.channels,
            margin=images.margin,
            note=images.note,
            skipped=images.skipped,
        )
    assert isinstance(images, TensorImages)
    return TensorImages(images.pixels, None, size=like.size, channels=like.channels, note=images.note)
