"""Names of the networks that a run is compared with; checked before torch is loaded."""

from typing import Literal

Baseline = Literal["resnet", "random", "all-3x3"]
BASELINES: dict[Baseline, str] = {
    "resnet": "a ResNet: residual blocks in the same skeleton",
    "random": "a random cell of the same space",
    "all-3x3": "the cell of 3x3 convolutions alone",
}
"""Networks that the found one is compared with: as wide as gives the same multiply-adds, with the same settings.

Under limits in KB the ResNet is the largest that fits them, and within a time budget that takes no longer."""
DEFAULT_BASELINES: tuple[Baseline, ...] = ("resnet", "random")
