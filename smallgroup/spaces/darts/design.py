"""Networks of the DARTS space: their size, and what the papers train."""

from dataclasses import dataclass

from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.spaces.darts.names import AUXILIARIES, STEMS
from smallgroup.spaces.design import IMAGES, NetworkDesign


@dataclass(frozen=True, kw_only=True)
class DartsDesign(NetworkDesign):
    """A network of the DARTS space.

    For 8x8 digits: `DartsDesign(images=ImageSpec(classes=10, channels=1, size=8), channels=16, cells=5)`.
    """

    cells: int = 20
    """Number of cells of the network."""
    stem: str = "auto"
    """cifar, small, imagenet, or auto, by the size of the images as in a search."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(cells=self.cells)
        check_choice("stem", self.stem, ("auto", *STEMS))
        check_choice("auxiliary", self.auxiliary, AUXILIARIES)

    @property
    def stem_kind(self) -> str:
        """Return the stem that `auto` means for images of this size."""
        return stem_for(self.images.size) if self.stem == "auto" else self.stem

    @property
    def smallest_map(self) -> int:
        """Height and width after the second reduction; every halving rounds up."""
        # Two reductions divide the side by 4; the ImageNet stem before them by 8.
        halved = 32 if self.stem_kind == "imagenet" else 4
        return -(-self.images.size // halved)


def stem_for(size: int) -> str:
    """Return the stem for images of a size."""
    return "small" if size < 32 else "cifar" if size < 128 else "imagenet"


NETWORKS = {
    "cifar10": DartsDesign(images=IMAGES["cifar10"], channels=36, cells=20, stem="cifar", auxiliary="two-norms"),
    "cifar100": DartsDesign(images=IMAGES["cifar100"], channels=36, cells=20, stem="cifar", auxiliary="two-norms"),
    "imagenet": DartsDesign(images=IMAGES["imagenet"], channels=48, cells=14, stem="imagenet", auxiliary="one-norm"),
}
"""What the papers train, with the auxiliary head they train it with."""
