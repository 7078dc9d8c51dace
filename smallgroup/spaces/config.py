"""The part of a config that is about the search space."""

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from smallgroup import spaces
from smallgroup.runtime.bounds import MOST
from smallgroup.spaces.nas_bench_201.cell import Derivation

if TYPE_CHECKING:
    from smallgroup.spaces import DartsSpace, NasBench201Space


class SpaceConfig(BaseModel):
    """Which space, at which size; what the images are like comes from the data."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    name: Literal["darts", "nas-bench-201"] = "nas-bench-201"
    """See `smallgroup list spaces`."""
    channels: int = Field(default=8, ge=1, le=MOST["channels"])
    """Channels of the first cells."""
    cells: int = Field(default=3, ge=3, le=MOST["cells"])
    """Cells in all, in the DARTS space."""
    cells_per_stage: int = Field(default=1, ge=1, le=MOST["cells_per_stage"])
    """Cells between two reductions, in NAS-Bench-201."""
    derive: Derivation = "without-none"
    """In NAS-Bench-201: never choose `none`, or (benchmark) choose among all five operations as its authors do."""
    stem: Literal["auto", "cifar", "small", "imagenet"] = "auto"
    """Of the DARTS space; auto: by the size of the images."""

    def build(self, *, classes: int, image_channels: int, image_size: int) -> "DartsSpace | NasBench201Space":
        """The space for such images."""
        images = {"classes": classes, "image_channels": image_channels, "image_size": image_size}
        if self.name == "nas-bench-201":
            sizes = {"channels": self.channels, "cells_per_stage": self.cells_per_stage}
            return spaces.NasBench201Space(**sizes, **images, derivation=self.derive)
        stem: str = self.stem
        if stem == "auto":
            stem = "small" if image_size < 32 else "cifar" if image_size < 128 else "imagenet"
        return spaces.DartsSpace(channels=self.channels, cells=self.cells, stem=stem, **images)
