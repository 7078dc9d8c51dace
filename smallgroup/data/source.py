"""What stands behind the name of a dataset. Nothing here loads torch: names are checked before anything is read."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from smallgroup.data.errors import require_folder

if TYPE_CHECKING:
    from smallgroup.data.checking import BadImages
    from smallgroup.data.dataset import Dataset
    from smallgroup.data.images import Images
    from smallgroup.data.measured import MeasuredImages


class Source(ABC):
    """Images that `--dataset` and `--unlabeled` find by a name.

    A subclass is registered with `@smallgroup.data.register`. The first line of its docstring is what
    `smallgroup list datasets` says about it. Import torch inside `open` and `open_unlabeled` to keep commands quick.

    Args:
        argument: what follows the name and a colon, such as the path in `folder:PATH`; empty where nothing does.
        root: the data root.
    """

    name: ClassVar[str]
    takes: ClassVar[str] = ""
    """What must follow the name and a colon, such as PATH for `folder:PATH`; empty: nothing may."""
    recipe_variant: ClassVar[str] = "folder"
    """The built-in dataset whose variants of recipes hold for this one as well."""

    def __init__(self, argument: str, root: Path) -> None:
        self.argument, self.root = argument, root

    def where(self) -> Path | str:
        """Return the folder that holds the data, or in words where they come from."""
        return type(self).__module__

    def require(self, what: str = "a dataset") -> None:
        """Refuse missing data before anything is read; `what` names their purpose in the error."""
        if isinstance(place := self.where(), Path):
            require_folder(place, f"{what} {self.name!r}")

    def folders_of_classes(self) -> Sequence[Path]:
        """Return folders in which every folder is a class, so that a run cannot be inside them."""
        return ()

    @abstractmethod
    def open(self, size: int | None = None, bad: "BadImages | None" = None) -> "Dataset":
        """Return the labeled images, `size` pixels high and wide; None: the size that suits them.

        With `bad`, all image files are decoded first; those that cannot be decoded are refused or skipped.
        """

    def open_measured(self, size: int, bad: "BadImages | None" = None) -> "MeasuredImages":
        """Return the images to measure a model on that other data trained: the test part, else the training part."""
        from smallgroup.data.measured import MeasuredImages  # noqa: PLC0415 -- it loads torch

        return MeasuredImages.part_of(self.open(size, bad))

    def open_unlabeled(self, like: "Dataset", bad: "BadImages | None" = None) -> "Images":
        """Return images without labels, in the size and the channels of a labeled dataset: the training images."""
        return self.open(bad=bad).train.without_labels(like.size, like.channels)
