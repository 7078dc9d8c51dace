"""How wide a network is: within limits, of the same cost as another, and the ladder to choose from by time."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest

from smallgroup.phases.training.config import Limits
from smallgroup.phases.training.latency import Latencies
from smallgroup.phases.training.size import filling_limits, ladder, of_same_cost, size_of, within_limits
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import definition_of
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.nas_bench_201.cell import Cell
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.networks import build_network
from tests.configs import FULL_SIZE

IMAGES = ImageSpec(classes=10, channels=1, size=8)
NETWORK = NetworkConfig(**{**FULL_SIZE, "reduction": "pool"}, channels=16, cells=3, cells_per_stage=1, auxiliary="none")
LIGHT = Cell.parse("|skip_connect~0|+|nor_conv_1x1~0|skip_connect~1|+|avg_pool_3x3~0|skip_connect~1|nor_conv_1x1~2|")
CELLS: dict[str, Genotype] = {
    "nas-bench-201": Cell.parse(
        "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|none~0|nor_conv_3x3~1|skip_connect~2|"
    ),
    "darts": published()["DARTS_V2"],
}
STEP = {"nas-bench-201": 1, "darts": 2}
by_space = pytest.mark.parametrize("space", CELLS)


def wide(channels: int) -> NetworkConfig:
    return NETWORK.model_copy(update={"channels": channels})


@by_space
def test_it_is_counted_as_it_is_built(space: str) -> None:
    design = wide(4).design(ImageSpec(10, 1, 8), space)
    network = build_network(CELLS[space], design)
    found = size_of(CELLS[space], wide(4), IMAGES)
    assert (found.parameters, found.multiply_adds) == (parameters(network), multiply_adds(network, 8, 1))


def test_keys_of_another_space_change_nothing() -> None:
    """A network section may have them, such as an auxiliary head that this space has not."""
    network = NetworkConfig(**FULL_SIZE, channels=4, cells_per_stage=2, cells=3, auxiliary="two-norms", stem="cifar")
    design = network.design(IMAGES, "nas-bench-201")
    assert design == NasBench201Design(images=IMAGES, channels=4, cells_per_stage=2)
    definition = definition_of("nas-bench-201")
    assert definition.design(definition.network_config(**network.model_dump()), IMAGES) == design
    assert network.design(IMAGES, "darts") == DartsDesign(
        images=IMAGES, channels=4, cells=3, stem="cifar", auxiliary="two-norms"
    )


@by_space
@pytest.mark.parametrize("limited", ["parameters", "multiply_adds"])
@pytest.mark.parametrize("channels", [6, 10])
@pytest.mark.parametrize("spare", [0, 1])
def test_it_is_as_wide_as_a_limit_allows(space: str, limited: str, channels: int, spare: int) -> None:
    """Exactly the size of a width is allowed; a little less is not, and then it is the next narrower one."""
    limit = getattr(size_of(CELLS[space], wide(channels), IMAGES), limited) - spare
    found = within_limits(CELLS[space], NETWORK, Limits(**{limited: limit}), IMAGES)
    assert found == wide(channels - spare * STEP[space])
    wider = size_of(CELLS[space], wide(found.channels + STEP[space]), IMAGES)
    assert getattr(wider, limited) > limit


def test_an_odd_width_of_the_darts_space_becomes_the_even_one_below() -> None:
    limit = size_of(CELLS["darts"], wide(16), IMAGES).parameters
    assert within_limits(CELLS["darts"], wide(17), Limits(parameters=limit), IMAGES) == wide(16)


@by_space
def test_of_two_limits_the_tighter_one_counts(space: str) -> None:
    tight, loose = (size_of(CELLS[space], wide(channels), IMAGES) for channels in (4, 12))
    for limits in (Limits(tight.parameters, loose.multiply_adds), Limits(loose.parameters, tight.multiply_adds)):
        assert within_limits(CELLS[space], NETWORK, limits, IMAGES) == wide(4)


@by_space
def test_what_fits_stays_as_it_is(space: str) -> None:
    own = size_of(CELLS[space], NETWORK, IMAGES)
    for limits in (Limits(), Limits(own.parameters, own.multiply_adds), Limits(10**9)):
        assert within_limits(CELLS[space], NETWORK, limits, IMAGES) is NETWORK


@pytest.mark.parametrize(("space", "key", "depth"), [("nas-bench-201", "cells_per_stage", 1), ("darts", "cells", 3)])
def test_where_nothing_fits_it_is_said(space: str, key: str, depth: int) -> None:
    step = STEP[space]
    least = size_of(CELLS[space], wide(step), IMAGES)
    sentence = (
        f"a network must have at most {least.parameters - 1:,} parameters, but with channels={step} and {key}={depth} "
        f"this one still has {least.parameters:,} parameters and {least.multiply_adds:,} multiply-adds, 1 parameters "
        f"too many; a lower training.network.{key} "
    )
    with pytest.raises(ValueError, match=sentence):
        within_limits(CELLS[space], NETWORK, Limits(parameters=least.parameters - 1), IMAGES)
    assert within_limits(CELLS[space], NETWORK, Limits(parameters=least.parameters), IMAGES) == wide(step)


@pytest.mark.parametrize("channels", [1, 5, 16, 23])
@pytest.mark.parametrize("cell", [LIGHT, *CELLS.values()], ids=["light", *CELLS])
def test_no_other_width_is_nearer_in_cost(cell: Genotype, channels: int) -> None:
    """Whether the other network is cheaper or dearer, narrower or wider than this one."""
    cost = size_of(CELLS["nas-bench-201"], wide(channels), IMAGES).multiply_adds
    found = of_same_cost(cell, NETWORK, cost, IMAGES)
    step = 2 if cell is CELLS["darts"] else 1

    def far(width: int) -> float:
        return abs(math.log(size_of(cell, wide(width), IMAGES).multiply_adds / cost))

    assert found == wide(found.channels)
    assert found.channels % step == 0
    assert far(found.channels) == min(far(width) for width in range(step, found.channels + 6, step))


def test_the_same_cell_at_its_own_cost_has_its_own_width() -> None:
    for cell in CELLS.values():
        cost = size_of(cell, wide(10), IMAGES).multiply_adds
        assert of_same_cost(cell, NETWORK, cost, IMAGES) == wide(10)


@by_space
def test_the_ladder_leads_up_and_keeps_what_is_no_size(space: str) -> None:
    rungs = list(ladder(space, NETWORK))
    sizes = [size_of(CELLS[space], rung, ImageSpec(10, 3, 32)) for rung in rungs[:7]]
    assert all(a.multiply_adds < b.multiply_adds and a.parameters < b.parameters for a, b in pairwise(sizes))
    free = {"channels", "cells_per_stage" if space == "nas-bench-201" else "cells"}
    for rung in rungs:
        assert rung.model_dump(exclude=free) == NETWORK.model_dump(exclude=free)
    depths = [rung.cells_per_stage if space == "nas-bench-201" else rung.cells for rung in rungs]
    assert depths == sorted(depths)
    assert len(set(depths)) == 2


@by_space
@pytest.mark.parametrize("limited", ["flash_kb", "ram_kb"])
def test_limits_in_kilobytes_give_the_widest_network_that_fits(space: str, limited: str) -> None:
    asked = size_of(CELLS[space], wide(8), IMAGES, memory=True)
    limits = Limits(**{limited: getattr(asked, limited)})
    found = within_limits(CELLS[space], NETWORK, limits, IMAGES)
    assert size_of(CELLS[space], found, IMAGES, memory=True).within(limits)
    wider = size_of(CELLS[space], wide(found.channels + STEP[space]), IMAGES, memory=True)
    assert not wider.within(limits)
    assert found.channels >= 8


def test_a_refusal_says_which_limit_is_short_by_how_much() -> None:
    step = STEP["darts"]
    least = size_of(CELLS["darts"], wide(step), IMAGES, memory=True)
    assert least.flash_kb is not None
    assert least.ram_kb is not None
    limits = Limits(flash_kb=least.flash_kb + 1, ram_kb=least.ram_kb - 0.5)
    with pytest.raises(ValueError, match=r"channels=2 and cells=3 .* RAM \(int8\), 0.5 KB of RAM \(int8\) too many"):
        within_limits(CELLS["darts"], NETWORK, limits, IMAGES)


def test_depth_and_width_give_the_largest_network_that_fits() -> None:
    """Of all that are no deeper and no wider, down to what the space calls shallow: by trying each of them."""
    cell, network = CELLS["darts"], wide(8).model_copy(update={"cells": 6})
    every = [network.model_copy(update={"channels": c, "cells": n}) for n in (6, 5) for c in (4, 6, 8)]
    counted = [(each, size_of(cell, each, IMAGES, memory=True)) for each in every]
    asked = next(size for each, size in counted if (each.channels, each.cells) == (8, 5))
    for limited in ("parameters", "ram_kb"):
        limits = Limits(**{limited: getattr(asked, limited)})
        fitting = [(size.parameters, each.cells, each) for each, size in counted if size.within(limits)]
        assert within_limits(cell, network, limits, IMAGES) == max(fitting, key=lambda one: one[:2])[2], limited


def test_limits_are_filled_by_a_network_of_any_width() -> None:
    """Whether the given one is narrower or wider."""
    cell = CELLS["nas-bench-201"]
    limits = Limits(flash_kb=size_of(cell, wide(11), IMAGES, memory=True).flash_kb)
    for given in (2, 11, 16):
        assert filling_limits(cell, wide(given), limits, IMAGES) == wide(11)


def of_width(calls: list[list[int]]) -> Latencies:
    """A millisecond per channel; notes what is measured together."""

    def measure(networks: Sequence[tuple[Genotype, NetworkDesign]]) -> list[float]:
        calls.append([design.channels for _, design in networks])
        return [float(design.channels) for _, design in networks]

    return Latencies(measure)


@by_space
@pytest.mark.parametrize("most", [7.0, 8.0, 15.5])
def test_a_limit_on_latency_gives_the_widest_network_that_was_measured_within_it(space: str, most: float) -> None:
    calls: list[list[int]] = []
    latencies = of_width(calls)
    limits = Limits(latency_ms=most)
    found = within_limits(CELLS[space], NETWORK, limits, IMAGES, latencies)
    assert found.channels == STEP[space] * (most // STEP[space])
    flat = [channels for group in calls for channels in group]
    assert len(flat) == len(set(flat))  # each once
    assert found.channels in flat
    measured = len(calls)
    assert within_limits(CELLS[space], NETWORK, limits, IMAGES, latencies) == found
    assert len(calls) == measured
    kept = Latencies(latencies.measure, dict(latencies.known))
    assert within_limits(CELLS[space], found, limits, IMAGES, kept) is found
    assert len(calls) == measured


def test_what_other_limits_refuse_is_not_measured() -> None:
    calls: list[list[int]] = []
    cell = CELLS["nas-bench-201"]
    limits = Limits(parameters=size_of(cell, wide(9), IMAGES).parameters, latency_ms=6.0)
    assert within_limits(cell, NETWORK, limits, IMAGES, of_width(calls)) == wide(6)
    assert max(channels for group in calls for channels in group) <= 9
    with pytest.raises(
        ValueError, match=r"at most 0.25 ms of latency, but with .* 1 ms of latency, 0.75 ms of latency"
    ):
        within_limits(cell, NETWORK, Limits(latency_ms=0.25), IMAGES, of_width(calls))
