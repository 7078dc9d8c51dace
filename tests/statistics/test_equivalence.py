"""Two one-sided tests, against scipy's t-test, by hand, and by the interval that says the same."""

import numpy as np
import pytest
from scipy import stats

from smallgroup.statistics import equivalent_paired


def rows(differences: list[float]) -> tuple[dict[int, float], dict[int, float]]:
    """Two rows by seed that differ by these."""
    second = dict.fromkeys(range(len(differences)), 50.0)
    return {seed: 50.0 + d for seed, d in enumerate(differences)}, second


def test_by_hand() -> None:
    """Differences -1, 0, 1, 2: mean 0.5, deviation sqrt(5 / 3), standard error 0.6455, three degrees of freedom.

    With a margin of 2: t = 2.5 / 0.6455 = 3.873 and -1.5 / 0.6455 = -2.324. For three degrees of freedom the
    distribution has a closed form, F(t) = 1/2 + (u / (1 + u^2) + atan u) / pi with u = t / sqrt(3).
    """
    u = 1.5 / np.sqrt(5 / 12) / np.sqrt(3)
    by_formula = 0.5 - (u / (1 + u**2) + np.arctan(u)) / np.pi
    found = equivalent_paired(*rows([-1.0, 0.0, 1.0, 2.0]), 2.0)
    assert found.difference == pytest.approx(0.5)
    assert found.p == pytest.approx(by_formula, rel=1e-12)
    # The 95 % point for three degrees of freedom is 2.353363 in every table.
    reach = 2.353363 * np.sqrt(5 / 12)
    assert found.interval == pytest.approx((0.5 - reach, 0.5 + reach), abs=1e-5)


@pytest.mark.parametrize(("mean", "spread", "n"), [(0.0, 3.0, 10), (4.0, 5.0, 64), (-4.9, 14.0, 64), (9.0, 2.0, 8)])
def test_p_is_the_larger_of_scipys_one_sided_tests(mean: float, spread: float, n: int) -> None:
    d = list(np.random.default_rng(n).normal(mean, spread, n))
    found = equivalent_paired(*rows(d), 5.0)
    exact = [first - 50.0 for first in rows(d)[0].values()]
    above = stats.ttest_1samp(exact, -5.0, alternative="greater").pvalue
    below = stats.ttest_1samp(exact, 5.0, alternative="less").pvalue
    assert found.p == pytest.approx(max(above, below), rel=1e-9)
    assert found.n == n


@pytest.mark.parametrize("seed", range(20))
def test_it_rejects_at_5_percent_where_the_90_percent_interval_is_within_the_margin(seed: int) -> None:
    generator = np.random.default_rng(seed)
    d = list(generator.normal(generator.uniform(-4, 4), 10.0, 40))
    found = equivalent_paired(*rows(d), 5.0)
    assert found.interval is not None
    assert found.p is not None
    assert (found.p < 0.05) == (found.interval[0] > -5 and found.interval[1] < 5)


def test_it_says_equivalent_too_often_in_at_most_5_percent() -> None:
    """The mean difference is the margin itself, so that every such answer is wrong."""
    generator = np.random.default_rng(0)
    ps = [equivalent_paired(*rows(list(generator.normal(5.0, 14.0, 64))), 5.0).p or 0.0 for _ in range(400)]
    assert stats.binomtest(sum(p < 0.05 for p in ps), 400, 0.05).pvalue > 0.01


def test_only_seeds_that_both_have_count() -> None:
    found = equivalent_paired({1: 5.0, 2: 7.0, 3: 9.0}, {2: 6.0, 3: 6.0, 4: 0.0}, 5.0)
    assert (found.n, found.difference) == (2, 2.0)


@pytest.mark.parametrize(("difference", "p"), [(1.0, 0.0), (5.0, 1.0), (-6.0, 1.0)])
def test_differences_that_are_all_the_same_leave_no_doubt(difference: float, p: float) -> None:
    found = equivalent_paired(*rows([difference] * 4), 5.0)
    assert (found.p, found.interval) == (p, (difference, difference))


def test_one_pair_says_nothing() -> None:
    found = equivalent_paired(*rows([1.0]), 5.0)
    assert (found.p, found.interval, found.difference) == (None, None, 1.0)


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan")])
def test_a_margin_is_above_zero(margin: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        equivalent_paired(*rows([1.0, 2.0]), margin)


def test_no_seed_in_common_is_refused() -> None:
    with pytest.raises(ValueError, match="seed in common"):
        equivalent_paired({1: 1.0}, {2: 1.0}, 5.0)
