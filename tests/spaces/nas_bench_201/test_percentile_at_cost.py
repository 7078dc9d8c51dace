"""Percentiles among cells of similar cost: against the definition, written down once more and applied to every cell."""

import os
import random
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean

import pytest

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.count import multiply_adds
from smallgroup.spaces.nas_bench_201 import OPERATIONS, Cell, Truth, every_cell
from smallgroup.spaces.nas_bench_201.cost import benchmark_multiply_adds
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.networks import build_network

CONVOLUTIONS = Cell(("nor_conv_3x3",) * 6)
DESIGN = NasBench201Design(images=ImageSpec(10, 3, 32), channels=16, cells_per_stage=5)


@pytest.mark.parametrize("cell", [CONVOLUTIONS, Cell(("none",) * 6), *random.Random(0).sample(list(every_cell()), 10)])
def test_the_closed_form_is_the_count_of_the_network(cell: Cell) -> None:
    assert benchmark_multiply_adds(cell) == multiply_adds(build_network(cell, DESIGN, device="meta"), 32)


def cost(cell: Cell) -> int:
    """Of what is not dead."""
    return benchmark_multiply_adds(cell.pruned())


@dataclass(frozen=True)
class Known:
    """A cell of the table, with what the definition asks for."""

    form: str
    cost: int
    accuracy: float


def by_definition(own: Known, cells: list[Known]) -> Fraction:
    """Among distinct cells within 10 % of the cost, or the 100 nearest and all as near as those; ties count half."""
    distances: dict[str, int] = {}
    members: dict[str, list[float]] = {}
    for other in cells:
        distance = abs(other.cost - own.cost)
        distances[other.form] = min(distance, distances.get(other.form, distance))
        members.setdefault(other.form, []).append(other.accuracy)
    means = {form: fmean(values) for form, values in members.items()}
    peers = [form for form, distance in distances.items() if 10 * distance <= own.cost]
    if len(peers) < 100:
        limit = sorted(distances.values())[99]
        peers = [form for form, distance in distances.items() if distance <= limit]
    worse = sum(means[form] < means[own.form] for form in peers)
    equal = sum(means[form] == means[own.form] for form in peers)
    return 100 * Fraction(2 * worse + equal, 2 * len(peers))


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_percentiles_at_cost_on_the_real_table() -> None:
    truth, cells = Truth.find(Path(os.environ["SMALLGROUP_DATA"])), list(every_cell())
    assert truth is not None
    dead = Cell.parse("|none~0|+|nor_conv_3x3~0|skip_connect~1|+|nor_conv_1x1~0|avg_pool_3x3~1|none~2|")
    few_peers = [Cell((name, *("nor_conv_3x3",) * 5)) for name in OPERATIONS if name != "nor_conv_3x3"]
    chosen = [dead, Cell(("nor_conv_1x1",) * 6), *few_peers, *random.Random(1).sample(cells, 8)]
    for column, accuracies in truth.columns.items():
        known = {cell: Known(cell.form(), cost(cell), accuracy) for cell, accuracy in accuracies.items()}
        for cell in chosen:
            found = truth.standing(cell, column).percentile_at_cost
            assert found is not None
            assert found == pytest.approx(float(by_definition(known[cell], list(known.values()))), abs=1e-9)


def better_with_cost() -> Truth:
    """A table in which accuracy is cost: nothing is told apart among cells of one cost."""
    return Truth({"made": {cell: cost(cell) / 1e7 for cell in every_cell()}})


def test_the_costliest_cell_has_no_peers() -> None:
    truth = better_with_cost()
    alone = [cell for cell in every_cell() if truth.standing(cell, "made").percentile_at_cost is None]
    assert alone == [CONVOLUTIONS]


def test_members_of_one_class_are_compared_at_their_own_cost() -> None:
    """One convolution that is used twice, and two that compute the same: one class, two costs."""
    small, large, skip = "nor_conv_1x1", "nor_conv_3x3", "skip_connect"
    once, twice = Cell((large, small, skip, small, skip, skip)), Cell((skip, small, small, large, large, skip))
    assert once.form() == twice.form()
    truth = better_with_cost()
    cheap, dear = (truth.standing(cell, "made") for cell in (once, twice))
    assert cheap.percentile == dear.percentile
    assert cheap.percentile_at_cost is not None
    assert dear.percentile_at_cost is not None
    assert cheap.percentile_at_cost > 95 > dear.percentile_at_cost
