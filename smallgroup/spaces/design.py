"""What a derived network is like apart from its genotype."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from smallgroup.runtime.checks import check_counts, check_probability
from smallgroup.runtime.image_spec import ImageSpec

IMAGES = {
    "cifar10": ImageSpec(classes=10, channels=3, size=32),
    "cifar100": ImageSpec(classes=100, channels=3, size=32),
    "imagenet": ImageSpec(classes=1000, channels=3, size=224),
}
"""The datasets for whose images papers state sizes; a space may have smaller ones of its own."""
_OF_IMAGES = {"classes": "classes", "image_channels": "channels", "image_size": "size"}
"""What files call the parts of an `ImageSpec`."""
_OF_BOTH = {"cells", "cells_per_stage", "halvings", "reduction", "stages", "pooling", "stem"}
"""Keys that files of earlier versions have whatever space a network is of."""


@dataclass(frozen=True, kw_only=True)
class NetworkDesign:
    """The size of a network and the images it is for, around a genotype. A space adds its own keys in a subclass."""

    images: ImageSpec = field(default_factory=ImageSpec)
    channels: int
    """Channels of a node in the first cells."""
    auxiliary: str = "none"
    """The kind of head that helps to train, where a space has one."""
    drop_path: float = 0.0
    """The probability to begin with, where a space drops paths."""

    def __post_init__(self) -> None:
        check_counts(channels=self.channels)
        check_probability("drop_path", self.drop_path)

    def to_plain(self) -> dict[str, Any]:
        """Return all keys at one level, as a file has them."""
        plain = asdict(self)
        images = plain.pop("images")
        return {**{key: images[name] for key, name in _OF_IMAGES.items()}, **plain}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Read what `to_plain` returns, of this version or an earlier one; unknown keys are a TypeError."""
        own = {each.name for each in fields(cls)}
        keys = {key: value for key, value in plain.items() if key in own or key not in _OF_BOTH}
        images = {name: keys.pop(key) for key, name in _OF_IMAGES.items() if key in keys}
        return cls(images=ImageSpec(**images), **keys)
