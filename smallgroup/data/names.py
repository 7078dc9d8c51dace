"""Names of data, and where each lies; checked before anything that reads images is imported."""

import os
from collections.abc import Sequence
from pathlib import Path

from smallgroup.data.errors import DataError, require_folder
from smallgroup.data.roots import expanded
from smallgroup.runtime.checks import suggestion
from smallgroup.runtime.text import shown

NAMES = ("digits", "cifar10", "cifar100", "imagenet")
FOLDER = "folder:"
SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_ROOT = "looked for under the data root (--data-root, SMALLGROUP_DATA)"
_PLACES = {
    "cifar10": ("cifar-10-batches-py", "CIFAR-10, python version,", f"; CIFAR-10 comes from {SOURCE} and is {_ROOT}"),
    "cifar100": ("cifar-100-python", "CIFAR-100, python version,", f"; CIFAR-100 comes from {SOURCE} and is {_ROOT}"),
    "imagenet": ("imagenet/train", "ImageNet", f"; it is {_ROOT}"),
}
"""By name: the folder below the data root, and the words for it in an error."""


def check_name(name: str, more: Sequence[str] = ()) -> None:
    """Refuse a name under which there is no data; `more` names are allowed beside those of datasets."""
    if name in NAMES or name in more or is_folder(name):
        return
    known = ", ".join((*NAMES, "folder:PATH", *more))
    hint = suggestion(name, (*NAMES, *more))
    if os.path.isdir(name) or (name and not hint and not name.startswith(FOLDER)):
        hint = f"; a folder of images is written folder:{shown(name)}"
    raise DataError(f"data must be one of {known}, but got {shown(name)!r}{hint}")


def is_folder(name: str) -> bool:
    """Whether a name is `folder:PATH`."""
    return name.startswith(FOLDER) and len(name) > len(FOLDER)


def require_data(name: str, root: Path, what: str = "a dataset") -> Path:
    """Return the folder of a dataset, or refuse the name if that folder is not there; digits have none."""
    check_name(name)
    if is_folder(name):
        folder = expanded(name.removeprefix(FOLDER))
        require_folder(folder, f"{what} 'folder:PATH'")
        return folder
    if name == "digits":
        return root
    below, title, help_ = _PLACES[name]
    require_folder(root / below, title, help_)
    return root / below
