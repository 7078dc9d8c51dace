"""How large the network around a cell is: as large as limits allow, as costly as another, or as the time allows."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from smallgroup.phases.training.config import Limits, in_words
from smallgroup.phases.training.trainee import Build
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import definition_of
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.footprint import footprint
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.networks import build_network

WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Channels of fitted networks, from narrow to wide."""
DEEPER_FROM = 96
"""From this width on a fitted network has more cells as well."""


@dataclass(frozen=True)
class NetworkSize:
    """How large a network is; memory in int8 is counted where somebody asks for it."""

    parameters: int
    multiply_adds: int
    flash_kb: float | None = None
    ram_kb: float | None = None

    def __str__(self) -> str:
        return " and ".join(in_words(name, amount) for name, amount in vars(self).items() if amount is not None)

    def within(self, limits: Limits) -> bool:
        """Whether limits allow it."""
        return not self.above(limits)

    def above(self, limits: Limits) -> list[str]:
        """Say of every limit that is too low by how much."""
        pairs = [(name, vars(self)[name], limit) for name, limit in vars(limits).items() if limit is not None]
        return [in_words(name, amount - limit) for name, amount, limit in pairs if amount > limit]


def size_of(
    genotype: Genotype,
    network: NetworkConfig,
    images: ImageSpec,
    build: Build = build_network,
    *,
    memory: bool = False,
) -> NetworkSize:
    """Count a network without building its weights; with `memory` also its flash and RAM in int8."""
    module = build(genotype, network.design(images, genotype.space), device="meta")
    found = footprint(module, images) if memory else None
    return NetworkSize(
        parameters(module),
        multiply_adds(module, images.size, images.channels),
        None if found is None else found.flash_kb,
        None if found is None else found.ram_kb,
    )


def within_limits(genotype: Genotype, network: NetworkConfig, limits: Limits, images: ImageSpec) -> NetworkConfig:
    """The network itself if it fits; else the largest around the same cell that is no wider and no deeper.

    The largest is the one with the most parameters, the deeper of two. None has fewer cells than what the space calls
    shallow, unless the network itself has.
    """

    def sized(candidate: NetworkConfig) -> NetworkSize:
        return size_of(genotype, candidate, images, memory=limits.on_memory)

    if not limits or sized(network).within(limits):
        return network
    step = definition_of(genotype.space).width_step
    depths = _shallower(genotype.space, network)
    channels = _largest(lambda width: sized(_of_width(network, width)).within(limits), network.channels, step)
    best, count = (
        (_of_width(network, channels), sized(_of_width(network, channels)).parameters) if channels else (None, 0)
    )
    for shallower in depths[1:]:
        # Only a wider one can be larger; mostly the first that is tried does not fit.
        while channels + step <= network.channels:
            wider = _of_width(shallower, channels + step)
            size = sized(wider)
            if not size.within(limits):
                break
            channels += step
            if size.parameters > count:
                best, count = wider, size.parameters
    if best is None:
        smallest = _of_width(depths[-1], step)
        least, depth = sized(smallest), _depth(genotype.space, network)
        advice = "" if depth is None else f"; a lower training.network.{depth[0]} makes it smaller"
        raise ValueError(
            f"a network must have at most {limits}, but with {_shape_in_words(genotype.space, smallest)} this one "
            f"still has {least}, {' and '.join(least.above(limits))} too many{advice}"
        )
    return best


def filling_limits(genotype: Genotype, network: NetworkConfig, limits: Limits, images: ImageSpec) -> NetworkConfig:
    """The network around a cell that is as wide as limits allow, however wide the given one is."""
    while network.channels * 2 <= MOST["channels"]:
        if not size_of(genotype, network, images, memory=limits.on_memory).within(limits):
            break
        network = _of_width(network, network.channels * 2)
    return within_limits(genotype, network, limits, images)


def fit_in_words(space: str, network: NetworkConfig, limits: Limits, size: NetworkSize) -> str:
    """Say how wide and deep a network is that fits its limits."""
    return f"{_shape_in_words(space, network)} fit {limits}: {size}"


def of_same_cost(
    genotype: Genotype, network: NetworkConfig, cost: int, images: ImageSpec, build: Build = build_network
) -> NetworkConfig:
    """The same network around another cell, as wide as makes its multiply-adds nearest to `cost`."""

    def multiply_adds_of(channels: int) -> int:
        return size_of(genotype, _of_width(network, channels), images, build).multiply_adds

    step = definition_of(genotype.space).width_step
    most = network.channels
    while multiply_adds_of(most) < cost:
        most *= 2
    below = max(step, _largest(lambda channels: multiply_adds_of(channels) <= cost, most, step))
    nearest = min((below, below + step), key=lambda channels: abs(math.log(multiply_adds_of(channels) / cost)))
    return _of_width(network, nearest)


def ladder(space: str, network: NetworkConfig) -> Iterator[NetworkConfig]:
    """Networks from small to large, to choose from by time; what is not width or depth is as in the given one."""
    for width in WIDTHS:
        depth = definition_of(space).depth(deep=width >= DEEPER_FROM)
        yield network.model_copy(update={"channels": width, **depth})


def _of_width(network: NetworkConfig, channels: int) -> NetworkConfig:
    return network.model_copy(update={"channels": channels})


def _depth(space: str, network: NetworkConfig) -> tuple[str, int, int] | None:
    """Return the key of a network's depth in a space, its value, and what is shallow; None: networks have one depth."""
    for key, shallow in definition_of(space).depth(deep=False).items():
        return key, getattr(network.of(space), key), shallow
    return None


def _shallower(space: str, network: NetworkConfig) -> list[NetworkConfig]:
    """The network, and then those with fewer cells."""
    known = _depth(space, network)
    if known is None:
        return [network]
    key, own, shallow = known
    return [network, *(network.model_copy(update={key: depth}) for depth in range(own - 1, shallow - 1, -1))]


def _shape_in_words(space: str, network: NetworkConfig) -> str:
    """Say how wide and deep a network is: `channels=24 and cells=5`."""
    known = _depth(space, network)
    return f"channels={network.channels}" + ("" if known is None else f" and {known[0]}={known[1]}")


def _largest(fits: Callable[[int], bool], most: int, step: int) -> int:
    """The largest multiple of `step` up to `most` that fits, 0 if none; what is larger than a misfit does not fit."""
    low, high = 0, most // step + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle)
    return low * step
