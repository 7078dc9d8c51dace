"""Means, deviations and intervals, against numbers worked out by hand and against scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from smallgroup.statistics import over_retrainings, summarize
from smallgroup.statistics.summary import bootstrap_interval


def test_by_hand() -> None:
    found = summarize([2.0, 4.0, 9.0])
    assert (found.n, found.mean, found.median, found.lowest, found.highest) == (3, 5.0, 4.0, 2.0, 9.0)
    assert found.std == pytest.approx(math.sqrt((9 + 1 + 16) / 2))


@pytest.mark.parametrize("values", [[5.0], [5.0, 6.0]])
def test_fewer_than_three_have_no_deviation(values: list[float]) -> None:
    found = summarize(values)
    assert found.std is None
    assert found.interval is None


def test_an_interval_covers_the_mean_as_often_as_it_says() -> None:
    """Of 300 samples of 30 numbers, about 95 in 100; a bootstrap of so few is a little too narrow."""
    generator = np.random.default_rng(1)
    hits = 0
    for _ in range(300):
        interval = summarize(list(generator.normal(1.0, 2.0, 30))).interval
        assert interval is not None
        hits += interval[0] <= 1.0 <= interval[1]
    assert 0.89 <= hits / 300 <= 0.98


def test_an_interval_is_that_of_students_t_for_many_numbers() -> None:
    x = np.random.default_rng(2).normal(size=400)
    low, high = bootstrap_interval(x, np.mean)
    expected = stats.t.interval(0.95, len(x) - 1, loc=x.mean(), scale=stats.sem(x))
    assert (low, high) == pytest.approx(expected, abs=0.01)


def test_equal_values_have_an_interval_of_one_point() -> None:
    assert summarize([3.0] * 5).interval == (3.0, 3.0)


def test_the_same_table_twice() -> None:
    values = list(np.random.default_rng(3).normal(size=8))
    assert summarize(values) == summarize(values)


def test_searches_and_retrainings_apart() -> None:
    """Three searches; within them deviations 1 and 2 over 2 and 2 degrees of freedom: pooled sqrt((2 + 8) / 4)."""
    found = over_retrainings([[1.0, 2.0, 3.0], [6.0, 8.0, 10.0], [5.0]])
    assert found == pytest.approx(math.sqrt(2.5))


def test_one_training_per_search_says_nothing_of_retrainings() -> None:
    assert over_retrainings([]) is None
    assert over_retrainings([[1.0], [2.0], [3.0]]) is None
    assert over_retrainings([[1.0, 2.0], [2.0], [3.0]]) is None  # one degree of freedom is too few


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_what_is_no_row_of_numbers_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        summarize(values)
