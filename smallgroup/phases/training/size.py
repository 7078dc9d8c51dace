"""How large the network around a cell is: as large as limits allow, as costly as another, or as the time allows."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from smallgroup.phases.training.config import Limits, in_words
from smallgroup.phases.training.latency import Latencies
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
TOGETHER = 3
"""Networks whose latencies are measured in alternating runs."""


@dataclass(frozen=True)
class NetworkSize:
    """The size of a network; memory in int8 is counted, and latency measured, only if asked for."""

    parameters: int
    multiply_adds: int
    flash_kb: float | None = None
    ram_kb: float | None = None
    latency_ms: float | None = None

    def __str__(self) -> str:
        return " and ".join(in_words(name, amount) for name, amount in vars(self).items() if amount is not None)

    def within(self, limits: Limits) -> bool:
        """Return whether the size meets all limits."""
        return not self.above(limits)

    def above(self, limits: Limits) -> list[str]:
        """Say of every limit that is too low by how much."""
        pairs = [(name, vars(self)[name], limit) for name, limit in vars(limits).items() if limit is not None]
        # What is not measured belongs to a network that exceeds another limit.
        return [
            in_words(name, amount - limit) for name, amount, limit in pairs if amount is not None and amount > limit
        ]


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


def within_limits(
    genotype: Genotype,
    network: NetworkConfig,
    limits: Limits,
    images: ImageSpec,
    latencies: Latencies | None = None,
) -> NetworkConfig:
    """Return the network itself if it fits; else the largest around the same cell that is no wider and no deeper.

    The largest is the one with the most parameters, the deeper of two. None has fewer cells than what the space calls
    shallow, unless the network itself has. A limit on latency needs `latencies`; latency is measured where the other
    limits are met, and taken to grow with the width.
    """
    sized = _Sizes(genotype, limits, images, latencies)
    if not limits or sized.fit([network]) == [True]:
        return network
    step = definition_of(genotype.space).width_step
    depths = _shallower(genotype.space, network)
    together = 1 if limits.latency_ms is None else TOGETHER
    channels = _largest(
        lambda widths: sized.fit([_of_width(network, width) for width in widths]), network.channels, step, together
    )
    best, count = None, 0
    if channels:
        best = _of_width(network, channels)
        count = sized.parameters(best)
    for shallower in depths[1:]:
        # Only a wider one can be larger; mostly the first that is tried does not fit.
        while channels + step <= network.channels:
            wider = _of_width(shallower, channels + step)
            if sized.fit([wider]) != [True]:
                break
            channels += step
            if sized.parameters(wider) > count:
                best, count = wider, sized.parameters(wider)
    if best is None:
        smallest = _of_width(depths[-1], step)
        (least,), depth = sized.of([smallest]), _depth(genotype.space, network)
        advice = "" if depth is None else f"; a lower training.network.{depth[0]} makes it smaller"
        raise ValueError(
            f"a network must have at most {limits}, but with {_shape_in_words(genotype.space, smallest)} this one "
            f"still has {least}, {' and '.join(least.above(limits))} too many{advice}"
        )
    return best


@dataclass(frozen=True)
class _Sizes:
    """Sizes of networks around a cell, as far as limits need them."""

    genotype: Genotype
    limits: Limits
    images: ImageSpec
    latencies: Latencies | None

    def of(self, networks: Sequence[NetworkConfig]) -> list[NetworkSize]:
        """Count networks; latency is measured of those that meet the limits on what is counted."""
        sizes = [size_of(self.genotype, one, self.images, memory=self.limits.on_memory) for one in networks]
        if self.limits.latency_ms is None:
            return sizes
        if self.latencies is None:
            raise ValueError("a limit on latency needs latencies, but got None")
        places = [place for place, size in enumerate(sizes) if size.within(self.limits.counted)]
        designs = [networks[place].design(self.images, self.genotype.space) for place in places]
        for place, measured in zip(places, self.latencies.of(self.genotype, designs), strict=True):
            sizes[place] = replace(sizes[place], latency_ms=measured)
        return sizes

    def fit(self, networks: Sequence[NetworkConfig]) -> list[bool]:
        """Say of each network whether it meets the limits."""
        return [size.within(self.limits) for size in self.of(networks)]

    def parameters(self, network: NetworkConfig) -> int:
        """Count the parameters of a network around the cell."""
        return size_of(self.genotype, network, self.images).parameters


def filling_limits(
    genotype: Genotype,
    network: NetworkConfig,
    limits: Limits,
    images: ImageSpec,
    latencies: Latencies | None = None,
) -> NetworkConfig:
    """Return the network around a cell that is as wide as limits allow, however wide the given one is."""
    while network.channels * 2 <= MOST["channels"]:
        if not size_of(genotype, network, images, memory=limits.on_memory).within(limits.counted):
            break
        network = _of_width(network, network.channels * 2)
    return within_limits(genotype, network, limits, images, latencies)


def fit_in_words(space: str, network: NetworkConfig, limits: Limits, size: NetworkSize) -> str:
    """Say how wide and deep a network is that fits its limits."""
    return f"{_shape_in_words(space, network)} fit {limits}: {size}"


def of_same_cost(
    genotype: Genotype, network: NetworkConfig, cost: int, images: ImageSpec, build: Build = build_network
) -> NetworkConfig:
    """Return the same network around another cell, of the width whose multiply-adds are nearest to `cost`."""

    def multiply_adds_of(channels: int) -> int:
        return size_of(genotype, _of_width(network, channels), images, build).multiply_adds

    step = definition_of(genotype.space).width_step
    most = network.channels
    while multiply_adds_of(most) < cost:
        most *= 2
    below = max(step, _largest(lambda widths: [multiply_adds_of(width) <= cost for width in widths], most, step))
    nearest = min((below, below + step), key=lambda channels: abs(math.log(multiply_adds_of(channels) / cost)))
    return _of_width(network, nearest)


def ladder(space: str, network: NetworkConfig) -> Iterator[NetworkConfig]:
    """Yield networks from small to large, to choose from by time; they differ from the given one in width and depth."""
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
    """Return the network, and then versions with fewer cells."""
    known = _depth(space, network)
    if known is None:
        return [network]
    key, own, shallow = known
    return [network, *(network.model_copy(update={key: depth}) for depth in range(own - 1, shallow - 1, -1))]


def _shape_in_words(space: str, network: NetworkConfig) -> str:
    """Say how wide and deep a network is: `channels=24 and cells=5`."""
    known = _depth(space, network)
    return f"channels={network.channels}" + ("" if known is None else f" and {known[0]}={known[1]}")


def _largest(fit: Callable[[Sequence[int]], list[bool]], most: int, step: int, together: int = 1) -> int:
    """Return the largest multiple of `step` up to `most` that fits, 0 if none; sizes above a misfit do not fit.

    So many are asked for `together`, evenly spread over what is left.
    """
    low, high = 0, most // step + 1
    while high - low > 1:
        places = sorted({low + (high - low) * (k + 1) // (together + 1) for k in range(together)} - {low})
        for place, fits in zip(places, fit([place * step for place in places]), strict=True):
            if not fits:
                high = place
                break
            low = place
    return low * step
