"""Signs of a collapse, and their absence."""

import pytest
import torch

from smallgroup.phases.search.collapse import signs_of_collapse
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.nas_bench_201 import Cell, NasBench201Space

DARTS = DartsSpace(channels=4, cells=3, images=ImageSpec(10, 3, 32))
BENCHMARK = NasBench201Space(channels=4, cells_per_stage=1, images=ImageSpec(10, 3, 32))
OPEN = {"cell": [0.9] * 6}
DECIDED = {"cell": [0.1] * 6}
BOTH_OPEN = {kind: [0.9] * 14 for kind in ("normal", "reduce")}
BOTH_DECIDED = {kind: [0.1] * 14 for kind in ("normal", "reduce")}


def cell(*operations: str) -> dict[str, torch.Tensor]:
    return BENCHMARK.chosen(Cell(operations))


@pytest.mark.parametrize(
    ("skips", "nones", "warned"),
    [(2, 0, False), (3, 0, True), (6, 0, True), (2, 2, True), (1, 3, False), (0, 6, False)],
)
def test_a_cell_half_of_which_is_skip_connections(skips: int, nones: int, warned: bool) -> None:
    others = ["nor_conv_3x3"] * (6 - skips - nones)
    found = signs_of_collapse(BENCHMARK, cell(*["skip_connect"] * skips, *["none"] * nones, *others), OPEN, DECIDED)
    assert ("skips" in found) is warned
    if warned:
        assert f"{skips} of the {6 - nones} edges of the cell are" in found["skips"]
        assert "--method fair-darts" in found["skips"]


def test_skip_connections_that_hardly_lead_are_no_collapse() -> None:
    """Advice for a collapse, such as smaller steps of the architecture, would make an undecided search worse."""
    skips = cell(*["skip_connect"] * 4, *["nor_conv_3x3"] * 2)
    found = signs_of_collapse(BENCHMARK, skips, {"cell": [0.999] * 6}, {"cell": [0.004] * 4 + [0.5] * 2})
    assert list(found) == ["undecided"]
    assert "lead by 0.4 percentage points only" in found["undecided"]
    assert "larger search.architecture.lr" in found["undecided"]
    assert list(signs_of_collapse(BENCHMARK, skips, OPEN, {"cell": [0.03] * 4 + [0.0] * 2})) == ["skips"]


@pytest.mark.parametrize("name", ["DARTS_V1", "DARTS_V2", "PDARTS", "PCDARTS_cifar"])
def test_published_cells_are_no_collapse(name: str) -> None:
    """Skip connections of the reduction cell do not count: DARTS_V2 has as many as it can."""
    genotype = published()[name]
    assert signs_of_collapse(DARTS, DARTS.chosen(genotype), BOTH_OPEN, BOTH_DECIDED) == {}


def test_edges_without_entropy() -> None:
    convolutions = cell(*["nor_conv_3x3"] * 6)
    assert signs_of_collapse(BENCHMARK, convolutions, {"cell": [0.0] * 5 + [0.9]}, DECIDED) == {}
    found = signs_of_collapse(BENCHMARK, convolutions, {"cell": [0.0] * 5 + [0.3]}, DECIDED)
    assert list(found) == ["entropy of cell"]
    assert "5 % of the entropy" in found["entropy of cell"]
    assert "search.architecture.lr" in found["entropy of cell"]
