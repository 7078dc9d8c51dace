"""The chains that the release of ProxylessNAS trains, each with the channels of its network."""

from typing import NamedTuple

from smallgroup.spaces.proxyless.genotype import Chain
from smallgroup.spaces.proxyless.names import NONE, WIDTHS


class ChainRelease(NamedTuple):
    """A published chain, and the widths of its network."""

    genotype: Chain
    about: str
    widths: str

    @property
    def sizes(self) -> dict[str, int | str]:
        """Return the config keys that give a network its published width."""
        return {"channels": WIDTHS[self.widths].first, "widths": self.widths}


_STAGES = {
    "gpu": "35 -- -- --, 37 -- -- 33, 67 -- -- 35, 65 -- 33 35, 67 67 67 65, 67",
    "cpu": "63 33 33 33, 63 33 33 35, 63 -- -- 33, 65 33 33 33, 65 35 35 33, 65",
    "mobile": "35 33 -- --, 37 33 35 35, 67 35 35 35, 65 35 35 35, 67 67 37 37, 67",
}
"""Expansion and kernel of each layer, stage by stage; that for mobile has a wider network too, `mobile-14`."""


def releases() -> dict[str, ChainRelease]:
    """Return the published chains by name."""
    return {
        f"ProxylessNAS_{device}": ChainRelease(_chain(stages), f"ProxylessNAS, Cai et al. 2019, for {device}", device)
        for device, stages in _STAGES.items()
    }


def _chain(stages: str) -> Chain:
    names = stages.replace(",", "").split()
    return Chain(tuple(NONE if name == "--" else f"mbconv{name[0]}_{name[1]}x{name[1]}" for name in names))
