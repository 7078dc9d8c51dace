"""Comparisons of two rows, against scipy, against all signs there are, and by hand."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from smallgroup.statistics import compare_paired, compare_unpaired, holm, smallest_p


def rows(differences: list[float]) -> tuple[dict[int, float], dict[int, float]]:
    """Two rows by seed that differ by these."""
    second = {seed: 50.0 + seed for seed in range(len(differences))}
    return {seed: second[seed] + d for seed, d in enumerate(differences)}, second


def by_all_signs(differences: list[float]) -> float:
    """How many of all choices of signs are at least as far from even as what was seen."""
    moved = np.array([d for d in differences if d])
    ranks = stats.rankdata(np.abs(moved))
    middle = ranks.sum() / 2
    seen = abs(ranks[moved > 0].sum() - middle)
    sums = [
        sum(r for r, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=len(moved))
    ]
    return float(np.mean([abs(s - middle) >= seen - 1e-9 for s in sums]))


@pytest.mark.parametrize(
    "differences",
    [
        [1.0, 2.0, 3.0, 4.0, 5.0],
        [1.0, -2.0, 3.0, 4.0, 5.0, -6.0],
        [1.0, 1.0, -1.0, 2.0, 2.0, 3.0],  # ties
        [0.0, 1.0, 2.0, -3.0, 4.0],  # a pair without a difference
        [2.0, -2.0],
    ],
)
def test_p_is_that_of_all_signs(differences: list[float]) -> None:
    found = compare_paired(*rows(differences))
    assert found.p == pytest.approx(by_all_signs(differences), abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("against", [(0, 1), (3, 8), (8, 9)])
def test_ties_are_not_broken_by_floating_point(scale: float, against: tuple[int, int]) -> None:
    """Ten errors of two decimals, 0.10 apart, eight for and two against: ranks that are all alike."""
    second = {seed: scale * (241 + 100 * seed + seed) / 100 for seed in range(10)}
    ends = {seed: (231 if seed in against else 251) + 100 * seed + seed for seed in range(10)}
    found = compare_paired({seed: scale * value / 100 for seed, value in ends.items()}, second)
    assert found.p == pytest.approx(0.109375)
    assert found.effect == pytest.approx(0.6)
    assert (found.better, found.worse) == (8, 2)


def test_one_number_out_of_all_proportion_does_not_make_the_others_equal() -> None:
    found = compare_paired({1: 1e15, 2: 0.2, 3: 0.3, 4: 0.4}, {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.1})
    assert (found.better, found.equal) == (4, 0)


def test_p_without_ties_is_scipys() -> None:
    d = list(np.random.default_rng(0).normal(0.3, 1.0, 20))
    first, second = rows(d)
    pairs = [first[s] - second[s] for s in first]
    assert compare_paired(first, second).p == stats.wilcoxon(pairs, method="exact").pvalue


def test_by_hand() -> None:
    """Ranks 1, 2, 3, 4 with the sign of the second turned: (1 - 2 + 3 + 4) / 10."""
    found = compare_paired(*rows([1.0, -2.0, 3.0, 4.0]))
    assert found.effect == pytest.approx(0.6)
    assert found.difference == 2.0
    assert (found.better, found.worse, found.equal) == (3, 1, 0)
    assert found.n == (4, 4)


def test_the_smallest_p_that_so_many_seeds_can_give() -> None:
    for n in (2, 3, 5, 8):
        found = compare_paired(*rows([float(i + 1) for i in range(n)]))
        assert found.p == pytest.approx(smallest_p(n))
        assert found.smallest_p == found.p
    assert smallest_p(1) == 1.0


def test_only_seeds_that_both_have_are_compared() -> None:
    found = compare_paired({1: 5.0, 2: 7.0, 3: 9.0}, {2: 6.0, 3: 6.0, 4: 0.0})
    assert found.n == (2, 2)
    assert found.difference == 2.0


def test_rows_that_are_equal() -> None:
    found = compare_paired(*rows([0.0, 0.0, 0.0]))
    assert (found.p, found.effect, found.difference, found.equal) == (1.0, 0.0, 0.0, 3)


def test_the_interval_of_pairs_is_that_of_their_median() -> None:
    """One difference that is far out moves the mean of every second resample, and hardly a median."""
    differences = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 100.0]
    found = compare_paired(*rows(differences))
    assert found.interval is not None
    assert found.interval[0] >= 1.0
    assert found.interval[1] <= 1.7 + 1e-9


def test_one_pair_has_no_p() -> None:
    found = compare_paired(*rows([3.0]))
    assert found.p is None
    assert found.interval is None


def test_no_seed_in_common_is_refused() -> None:
    with pytest.raises(ValueError, match="seed in common"):
        compare_paired({1: 1.0}, {2: 1.0})


def test_welch_is_scipys() -> None:
    generator = np.random.default_rng(1)
    x, y = list(generator.normal(1, 1, 12)), list(generator.normal(0, 3, 7))
    found = compare_unpaired(x, y)
    expected = stats.ttest_ind(x, y, equal_var=False)
    assert found.p == expected.pvalue
    assert found.interval == tuple(expected.confidence_interval(0.95))
    assert found.difference == pytest.approx(np.mean(x) - np.mean(y))


def test_hedges_by_hand() -> None:
    """Means 2 and 5, variances 1 and 1, four degrees of freedom: -3 (1 - 3 / 15)."""
    assert compare_unpaired([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]).effect == pytest.approx(-2.4)


@pytest.mark.parametrize("rows_", [([1.0], [2.0, 3.0]), ([1.0, 1.0], [2.0, 2.0])])
def test_welch_needs_a_spread(rows_: tuple[list[float], list[float]]) -> None:
    assert compare_unpaired(*rows_).p is None


def test_holm_by_hand() -> None:
    """0.01 x 3, 0.03 x 2, 0.04 x 1 but not below the one before; what is not there stays so."""
    assert holm([0.04, None, 0.01, 0.03]) == pytest.approx([0.06, None, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
