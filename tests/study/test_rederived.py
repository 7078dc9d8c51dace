"""Cells read off logged scores again, without `none`: from scores that are made by hand."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from smallgroup.spaces.ground_truth import Standing
from smallgroup.spaces.nas_bench_201 import OPERATIONS, Cell, Truth, every_cell
from smallgroup.study.rederived import Answers, derive_again, last_scores, markdown


def truth() -> Truth:
    """A table in which every 3x3 convolution is worth 15 percent, and every 1x1 convolution 3."""
    worth = {"nor_conv_3x3": 15.0, "nor_conv_1x1": 3.0}
    return Truth({"cifar10": {cell: sum(worth.get(op, 0.0) for op in cell.operations) for cell in every_cell()}})


def scores(second: str, share: float) -> Tensor:
    """`none` is best on every edge, then comes one operation."""
    table = torch.full((6, 5), 0.1, dtype=torch.float64)
    table[:, OPERATIONS.index("none")] = 0.5
    table[:, OPERATIONS.index(second)] = share
    return table


def test_the_cell_of_each_learner_and_of_the_mean_of_their_scores() -> None:
    known = truth()
    found = derive_again(
        [{"cell": scores("nor_conv_1x1", 0.2)}, {"cell": scores("nor_conv_3x3", 0.4)}], 0, known, "cifar10"
    )
    small, large = (known.standing(Cell((name,) * 6), "cifar10") for name in ("nor_conv_1x1", "nor_conv_3x3"))
    assert found.learners == (small, large)
    assert found.consensus == large  # 0.25 against 0.15 in the mean
    assert found.mean == pytest.approx((small.percentile + large.percentile) / 2)
    assert found.mean_at_cost == small.percentile_at_cost  # the other one has no peers


def test_scores_are_those_of_the_last_epoch(tmp_path: Path) -> None:
    rows = [
        {"epoch": epoch, "learner": learner, "scores": {"cell": [[epoch + learner / 10] * 5] * 6}}
        for epoch in range(3)
        for learner in range(2)
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = (one["cell"] for one in last_scores(path, "nas-bench-201"))
    assert first.shape == second.shape == (6, 5)
    assert (float(first[0, 0]), float(second[5, 4])) == (2.0, 2.1)


@pytest.mark.parametrize("row", [{"learner": 0}, {"learner": 0, "scores": {"normal": []}}, {"scores": None}, None])
def test_metrics_without_scores_are_refused(row: dict[str, object] | None, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("" if row is None else json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=r"must have the scores of a"):
        last_scores(path, "nas-bench-201")


def test_a_row_of_the_table() -> None:
    def one(percentile: float, at_cost: float | None) -> Standing:
        return Standing(90.0, percentile, at_cost)

    answers = {
        seed: Answers((one(80.0 + seed, 60.0), one(70.0, None)), 0, one(96.0, None if seed else 70.0), 50.0)
        for seed in range(3)
    }
    row = markdown({"group": answers}).splitlines()[-1]
    cells = ["group", "3", "50.0 ± 0.0", "81.0 ± 1.0", "75.5 ± 0.5", "96.0 ± 0.0", "60.0", "60.0", "70.0", "2"]
    assert row == f"| {' | '.join(cells)} |"
