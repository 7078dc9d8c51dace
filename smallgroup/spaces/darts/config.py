"""Keys of a config that only the DARTS space has, with defaults for short searches and trainings."""

from typing import Literal

from pydantic import Field

from smallgroup.runtime.bounds import MOST
from smallgroup.spaces.config import NetworkConfig, SpaceConfig


class DartsConfig(SpaceConfig):
    """The DARTS space in a search."""

    cells: int = Field(default=3, ge=3, le=MOST["cells"])
    """Cells in all, in the DARTS space."""
    stem: Literal["auto", "cifar", "small", "imagenet"] = "auto"
    """Stem of the DARTS space; auto: by the size of the images."""


class DartsNetworkConfig(NetworkConfig):
    """A network of the DARTS space."""

    cells: int = Field(default=5, ge=1, le=MOST["cells"])
    """Cells in all, in the DARTS space."""
    stem: Literal["auto", "cifar", "small", "imagenet"] = "auto"
    """Stem of the DARTS space; auto: by the size of the images."""
    auxiliary: Literal["none", "one-norm", "two-norms"] = "none"
    """The head that helps to train deep networks of the DARTS space, by its batch norms."""
