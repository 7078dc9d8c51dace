"""The additive fit of the table: where effects are known, against numpy's least squares, and beside scores."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from smallgroup.spaces.nas_bench_201 import EDGES, OPERATIONS, Cell, Truth, every_cell
from smallgroup.spaces.nas_bench_201.effects import AdditiveFit, additive_fit, score_correlation

KNOWN = [[-4.0, 1.0, 2.0, 3.0, -2.0], [0.0, 0.5, -0.5, 1.0, -1.0], [2.0, 0.0, 0.0, 0.0, -2.0]] * 2
"""Effects by edge and operation; those of an edge add up to zero."""


def additive(cell: Cell) -> float:
    """A table in which operations do not interact."""
    chosen = [own[OPERATIONS.index(operation)] for own, operation in zip(KNOWN, cell.operations, strict=True)]
    return 60.0 + sum(chosen)


def noisy(seed: int) -> dict[Cell, float]:
    """The same with something that no sum of effects explains."""
    draws = np.random.default_rng(seed).normal(0.0, 5.0, len(OPERATIONS) ** len(EDGES))
    return {cell: additive(cell) + float(draw) for cell, draw in zip(every_cell(), draws, strict=True)}


def test_the_effects_of_an_additive_table_are_found() -> None:
    fit = additive_fit({cell: additive(cell) for cell in every_cell()})
    assert fit.mean == pytest.approx(60.0)
    assert np.array(fit.effects) == pytest.approx(np.array(KNOWN), abs=1e-9)
    assert fit.r_squared == pytest.approx(1.0)


def by_lstsq(accuracies: dict[Cell, float]) -> tuple[np.ndarray, float]:
    """Effects, centered on each edge, and R^2, with a column for every operation of every edge."""
    x = np.array([[float(one == name) for one in cell.operations for name in OPERATIONS] for cell in accuracies])
    x, y = np.hstack([np.ones((len(x), 1)), x]), np.array(list(accuracies.values()))
    found = np.linalg.lstsq(x, y, rcond=None)[0]
    effects = found[1:].reshape(len(EDGES), len(OPERATIONS))
    share = 1 - ((y - x @ found) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    return effects - effects.mean(axis=1, keepdims=True), float(share)


def test_the_fit_is_numpys_least_squares() -> None:
    table = noisy(0)
    fit, (effects, share) = additive_fit(table), by_lstsq(table)
    assert np.array(fit.effects) == pytest.approx(effects, abs=1e-9)
    assert fit.r_squared == pytest.approx(share, abs=1e-9)
    assert 0.1 < fit.r_squared < 0.9


def test_a_table_without_differences_explains_nothing() -> None:
    fit = additive_fit(dict.fromkeys(every_cell(), 50.0))
    assert fit.r_squared == 0.0
    assert score_correlation(KNOWN, fit) is None


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
@pytest.mark.parametrize(("column", "share"), [("cifar10", 0.285), ("cifar100", 0.401)])
def test_of_the_real_table(column: str, share: float) -> None:
    truth = Truth.find(Path(os.environ["SMALLGROUP_DATA"]))
    if truth is None:
        pytest.skip("needs the table of NAS-Bench-201")
    fit = truth.additive_fit(column)
    assert fit is truth.additive_fit(column)  # computed once
    assert fit.r_squared == pytest.approx(by_lstsq(truth.columns[column])[1], abs=1e-9)
    assert fit.r_squared == pytest.approx(share, abs=5e-4)


FIT = AdditiveFit(0.0, tuple(map(tuple, KNOWN)), 1.0)


def changed(scores: Sequence[Sequence[float]], none: float, *shifts: float) -> list[list[float]]:
    """Other scores for `none`, and a shift of all scores of an edge."""
    return [[none, *(value + shift for value in row[1:])] for row, shift in zip(scores, shifts, strict=True)]


def test_scores_in_the_order_of_the_effects_correlate_fully() -> None:
    without = [[value - sum(row[1:]) / 4 for value in row] for row in KNOWN]
    assert score_correlation(without, FIT) == pytest.approx(1.0)
    assert score_correlation([[-value for value in row] for row in without], FIT) == pytest.approx(-1.0)
    squeezed = [[math.tanh(value) for value in row] for row in without]
    assert score_correlation(squeezed, FIT) == pytest.approx(1.0, abs=0.05)  # centering again moves ties a little


def test_none_and_the_level_of_an_edge_do_not_count() -> None:
    scores = np.random.default_rng(3).normal(size=(6, 5)).tolist()
    expected = score_correlation(scores, FIT)
    assert expected is not None
    assert abs(expected) < 1
    assert score_correlation(changed(scores, 99.0, 5.0, -3.0, 0.25, 1.0, 7.0, -0.5), FIT) == pytest.approx(expected)


def test_by_hand() -> None:
    """One edge has a preference of its own; on the others all is alike, in the effects and in the scores.

    Ranks: ties of twenty values at 10.5 + 2 = 12.5 on both sides; the four others are 1, 2, 23, 24 in the effects, and
    in the scores with the last two exchanged, so that d = 1 twice. Pearson's correlation of those ranks.
    """
    flat = [[0.0] * 5] * 5
    fit = AdditiveFit(0.0, tuple(map(tuple, [[0.0, -3.0, -1.0, 1.0, 3.0], *flat])), 1.0)
    scores = [[0.0, -3.0, -1.0, 3.0, 1.0], *flat]
    deviations = np.array([1, 2, 23, 24]) - 12.5
    expected = float((deviations * np.array([1, 2, 24, 23] - np.full(4, 12.5))).sum() / (deviations**2).sum())
    assert score_correlation(scores, fit) == pytest.approx(expected)


def test_scores_that_are_all_the_same_have_no_correlation() -> None:
    assert score_correlation([[0.2] * 5] * 6, FIT) is None
