"""Networks of NAS-Bench-201: their size, and what the benchmark trains."""

from dataclasses import dataclass

from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.design import NetworkDesign

REDUCTIONS, POOLINGS = ("residual", "pool"), ("average", "maximum")


@dataclass(frozen=True, kw_only=True)
class NasBench201Design(NetworkDesign):
    """The benchmark's network, or one like it in another size."""

    cells_per_stage: int = 5
    """Number of cells between two reductions."""
    halvings: int = 0
    """How often the stem halves the image before the first cell."""
    reduction: str = "residual"
    """What stands between two stages: residual, as in the benchmark, or pool."""
    stages: int = 3
    """How many there are, each with half the size and twice the channels of the one before."""
    pooling: str = "average"
    """What makes a vector of the last map: average, as in the benchmark, or maximum."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(cells_per_stage=self.cells_per_stage, stages=self.stages)
        check_counts(at_least=0, halvings=self.halvings)
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("pooling", self.pooling, POOLINGS)


NETWORKS = {
    "cifar10": NasBench201Design(images=ImageSpec(classes=10, channels=3, size=32), channels=16),
    "cifar100": NasBench201Design(images=ImageSpec(classes=100, channels=3, size=32), channels=16),
    "imagenet": NasBench201Design(images=ImageSpec(classes=120, channels=3, size=16), channels=16),
}
"""What the benchmark trains; it has an ImageNet of its own."""
