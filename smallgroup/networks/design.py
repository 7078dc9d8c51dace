"""What a derived network is like apart from its genotype."""

from dataclasses import dataclass

from smallgroup.networks.auxiliary import AUXILIARIES
from smallgroup.networks.drop_path import check_probability
from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.spaces.darts.skeleton import STEMS


@dataclass(frozen=True, kw_only=True)
class NetworkDesign:
    """The size of a network and the images it is for, around a genotype of either space.

    For 8x8 digits: `NetworkDesign(classes=10, image_channels=1, image_size=8, channels=16, cells=5)`.
    """

    classes: int
    image_channels: int = 3
    image_size: int
    """Height and width."""
    channels: int
    """Of a node in the first cells."""
    cells: int = 20
    """In all, in the DARTS space."""
    cells_per_stage: int = 5
    """Between two reductions, in NAS-Bench-201."""
    stem: str = "auto"
    """Of the DARTS space: cifar, small, imagenet, or auto, by the size of the images as in a search."""
    auxiliary: str = "none"
    """The head that helps to train, in the DARTS space: none, one-norm, or two-norms (its batch norms)."""
    drop_path: float = 0.0
    """The probability to begin with, in the DARTS space."""

    def __post_init__(self) -> None:
        check_counts(
            classes=self.classes,
            image_channels=self.image_channels,
            image_size=self.image_size,
            channels=self.channels,
            cells=self.cells,
            cells_per_stage=self.cells_per_stage,
        )
        check_choice("stem", self.stem, ("auto", *STEMS))
        check_choice("auxiliary", self.auxiliary, AUXILIARIES)
        check_probability("drop_path", self.drop_path)

    @property
    def stem_kind(self) -> str:
        """The stem that `auto` means."""
        if self.stem != "auto":
            return self.stem
        return "small" if self.image_size < 32 else "cifar" if self.image_size < 128 else "imagenet"

    @property
    def smallest_map(self) -> int:
        """Height and width after the second reduction, in the DARTS space; every halving rounds up."""
        halved = 32 if self.stem_kind == "imagenet" else 4
        return -(-self.image_size // halved)
