"""What a derived network is like apart from its genotype."""

from dataclasses import dataclass, replace

from smallgroup.runtime.checks import check_choice, check_counts, check_probability
from smallgroup.spaces.darts.genotype import Genotype
from smallgroup.spaces.darts.names import STEMS
from smallgroup.spaces.nas_bench_201.cell import Cell

AUXILIARIES = ("none", "one-norm", "two-norms")
"""No head; with a batch norm behind the first of its convolutions, as DARTS, PC-DARTS and the paper train on ImageNet;
behind both, as everybody does on CIFAR, and P-DARTS and DARTS- on ImageNet as well."""


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
    halvings: int = 0
    """How often the stem halves the image before the first cell, in NAS-Bench-201."""
    reduction: str = "residual"
    """What stands between two stages of NAS-Bench-201: residual, as in the benchmark, or pool."""
    stages: int = 3
    """How many there are in NAS-Bench-201, each with half the size and twice the channels of the one before."""
    pooling: str = "average"
    """What makes a vector of the last map in NAS-Bench-201: average, as in the benchmark, or maximum."""
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
            stages=self.stages,
        )
        check_counts(at_least=0, halvings=self.halvings)
        check_choice("reduction", self.reduction, ("residual", "pool"))
        check_choice("pooling", self.pooling, ("average", "maximum"))
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


NETWORKS = {
    "cifar10": NetworkDesign(classes=10, image_size=32, channels=36, cells=20, stem="cifar", auxiliary="two-norms"),
    "cifar100": NetworkDesign(classes=100, image_size=32, channels=36, cells=20, stem="cifar", auxiliary="two-norms"),
    "imagenet": NetworkDesign(
        classes=1000, image_size=224, channels=48, cells=14, stem="imagenet", auxiliary="one-norm"
    ),
}
"""What the papers train in the DARTS space, with the auxiliary head they train it with."""

BENCHMARK_NETWORKS = {
    "cifar10": NetworkDesign(classes=10, image_size=32, channels=16),
    "cifar100": NetworkDesign(classes=100, image_size=32, channels=16),
    "imagenet": NetworkDesign(classes=120, image_size=16, channels=16),
}
"""The same of NAS-Bench-201, which has an ImageNet of its own. No auxiliary head."""


def design_of(genotype: Genotype | Cell, network: str = "cifar10", *, auxiliary: bool = False) -> NetworkDesign:
    """The network of the papers for a dataset; with its auxiliary head, if it has one and it is asked for."""
    check_choice("network", network, tuple(NETWORKS))
    if isinstance(genotype, Cell):
        return BENCHMARK_NETWORKS[network]
    return NETWORKS[network] if auxiliary else replace(NETWORKS[network], auxiliary="none")


def image_size(genotype: Genotype | Cell, network: str = "cifar10") -> int:
    """Height and width of the images that network is made for."""
    return design_of(genotype, network).image_size
