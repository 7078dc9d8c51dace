"""The datasets that come with the package. What reads them loads torch, and is imported when they are opened."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from smallgroup.data.errors import require_folder
from smallgroup.data.given import given_data
from smallgroup.data.roots import expanded
from smallgroup.data.source import Source

if TYPE_CHECKING:
    from smallgroup.data.checking import BadImages
    from smallgroup.data.dataset import Dataset
    from smallgroup.data.images import Images
    from smallgroup.data.measured import MeasuredImages

ROOT = "looked for under the data root (--data-root, SMALLGROUP_DATA)"
CIFAR = "https://www.cs.toronto.edu/~kriz/cifar.html"


class Digits(Source):
    """Handwritten digits of 8x8 pixels, part of scikit-learn: no download."""

    name = "digits"
    recipe_variant = "digits"

    def where(self) -> str:
        """Return the name of the package that includes the images."""
        return "scikit-learn"

    def open(self, size: int | None = None, bad: "BadImages | None" = None) -> "Dataset":  # noqa: ARG002
        """Open the digits of scikit-learn; a fixed fifth is the test part."""
        from smallgroup.data.digits import open_digits  # noqa: PLC0415

        return open_digits(size)


class _Cifar(Source):
    """One of the two CIFAR datasets, in the folder of its official Python version."""

    title: ClassVar[str]
    folder: ClassVar[str]

    def where(self) -> Path:
        """Return the folder of the official files in the data root."""
        return self.root / self.folder

    def require(self, what: str = "a dataset") -> None:  # noqa: ARG002
        """Refuse a data root without that folder, and say where the files come from."""
        help_ = f"; {self.title} comes from {CIFAR} and is {ROOT}"
        require_folder(self.where(), f"{self.title}, python version,", help_)

    def open(self, size: int | None = None, bad: "BadImages | None" = None) -> "Dataset":  # noqa: ARG002
        """Open the official files, without unpickling anything but arrays."""
        from smallgroup.data.cifar import LAYOUTS, open_cifar  # noqa: PLC0415

        return open_cifar(LAYOUTS[self.name], self.where(), size)


class Cifar10(_Cifar):
    """CIFAR-10, from the folder cifar-10-batches-py in the data root."""

    name = "cifar10"
    recipe_variant = "cifar10"
    title, folder = "CIFAR-10", "cifar-10-batches-py"


class Cifar100(_Cifar):
    """CIFAR-100, from the folder cifar-100-python in the data root."""

    name = "cifar100"
    recipe_variant = "cifar100"
    title, folder = "CIFAR-100", "cifar-100-python"


class ImageNet(Source):
    """ImageNet (ILSVRC 2012), from the folder imagenet in the data root."""

    name = "imagenet"
    recipe_variant = "imagenet"

    def where(self) -> Path:
        """Return the folder `imagenet` in the data root."""
        return self.root / "imagenet"

    def require(self, what: str = "a dataset") -> None:  # noqa: ARG002
        """Refuse a data root without the folder `imagenet/train`."""
        require_folder(self.where() / "train", "ImageNet", f"; it is {ROOT}")

    def open(self, size: int | None = None, bad: "BadImages | None" = None) -> "Dataset":
        """Open the images of `train/` and `val/`."""
        from smallgroup.data.folder import open_imagenet  # noqa: PLC0415

        return open_imagenet(self.where(), size, bad)


class Folder(Source):
    """Your own images: one sub-folder per class, or train/ and val/ of those."""

    name = "folder"
    takes = "PATH"

    def where(self) -> Path:
        """Return the folder that the name gives."""
        return expanded(self.argument)

    def require(self, what: str = "a dataset") -> None:
        """Refuse a path that is not a folder."""
        require_folder(self.where(), f"{what} 'folder:PATH'")

    def folders_of_classes(self) -> Sequence[Path]:
        """Return the folders in which every sub-folder is a class."""
        from smallgroup.data.folder import class_parents  # noqa: PLC0415

        return class_parents(self.where())

    def open(self, size: int | None = None, bad: "BadImages | None" = None) -> "Dataset":
        """Open the images of the folder, or of its shards."""
        from smallgroup.data.folder import open_folder  # noqa: PLC0415

        return open_folder(self.where(), size, bad)

    def open_measured(self, size: int, bad: "BadImages | None" = None) -> "MeasuredImages":
        """Return the images of `test/` or `val/`; without these all images: no part of them has to be set aside."""
        from smallgroup.data.folder import open_measured  # noqa: PLC0415

        return open_measured(self.where(), size, bad)

    def open_unlabeled(self, like: "Dataset", bad: "BadImages | None" = None) -> "Images":
        """Return all images below the folder, whatever folders they are in."""
        from smallgroup.data.folder import open_images_below  # noqa: PLC0415

        return open_images_below(self.where(), like.size, like.channels, bad)


class Own(Source):
    """Images that a Python program gives: smallgroup.search(config, data=...)."""

    name = "own"
    takes = "NAME"

    @property
    def reference(self) -> str:
        """The name as the config has it."""
        return f"{self.name}:{self.argument}"

    def where(self) -> str:
        """Return in words where the images come from."""
        return "Python"

    def require(self, what: str = "a dataset") -> None:  # noqa: ARG002
        """Refuse data that the program has not passed."""
        given_data(self.reference)

    def open(self, size: int | None = None, bad: "BadImages | None" = None) -> "Dataset":  # noqa: ARG002
        """Open the labeled images that the program has passed."""
        return given_data(self.reference).open(size)

    def open_unlabeled(self, like: "Dataset", bad: "BadImages | None" = None) -> "Images":  # noqa: ARG002
        """Open the unlabeled images that the program has passed."""
        return given_data(self.reference).open_unlabeled(like)
