"""Keys of a config that only the chain space has."""

from typing import Literal

from pydantic import Field

from smallgroup.runtime.bounds import MOST
from smallgroup.spaces.config import NetworkConfig, SpaceConfig

Form = Literal["auto", "imagenet", "cifar", "small"]
WidthTable = Literal["search", "cpu", "gpu", "mobile", "mobile-14"]


class ProxylessConfig(SpaceConfig):
    """The chain space in a search."""

    channels: int = Field(ge=2, le=MOST["channels"], multiple_of=2)
    """Channels of the first block, an even number; the paper has 16."""
    form: Form = "auto"
    """Strides in the proxyless space; auto: by the size of the images."""


class ProxylessNetworkConfig(NetworkConfig):
    """A network of the chain space."""

    channels: int = Field(ge=2, le=MOST["channels"], multiple_of=2)
    """Channels of the first block, an even number; the paper has 16 or 24."""
    form: Form = "auto"
    """Strides in the proxyless space; auto: by the size of the images."""
    widths: WidthTable = "search"
    """How channels of the proxyless space grow: as in a search, or as in a network of the ProxylessNAS release."""
