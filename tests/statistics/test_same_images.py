"""Two networks on the same images, against sums of binomials and the interval by hand."""

from math import comb, sqrt

import pytest

from smallgroup.statistics.same_images import compare_on_images


def answers(both: int, only_first: int, only_second: int, neither: int) -> tuple[list[bool], list[bool]]:
    """Which images each of two networks gets wrong, so many in each of the four ways."""
    pairs = (
        [(True, True)] * both
        + [(True, False)] * only_first
        + [(False, True)] * only_second
        + [(False, False)] * neither
    )
    return [first for first, _ in pairs], [second for _, second in pairs]


@pytest.mark.parametrize(
    ("only_first", "only_second"), [(0, 1), (1, 0), (3, 3), (0, 6), (2, 9), (9, 2), (17, 20), (40, 12)]
)
def test_p_is_the_sum_of_the_binomials_that_are_as_rare(only_first: int, only_second: int) -> None:
    """A coin that is as often on either side: at p = 1/2 both tails are alike, and the middle counts once."""
    n, least = only_first + only_second, min(only_first, only_second)
    tail = sum(comb(n, k) for k in range(least + 1)) / 2**n
    found = compare_on_images(*answers(5, only_first, only_second, 50))
    assert found.p == pytest.approx(min(1.0, 2 * tail), rel=1e-12)


def test_p_does_not_depend_on_images_that_both_get_right_or_wrong() -> None:
    found = [compare_on_images(*answers(both, 2, 9, neither)).p for both, neither in ((0, 0), (7, 0), (0, 1000))]
    assert found[0] == found[1] == found[2]


def test_the_interval_by_hand() -> None:
    """Of 100 images 4 are wrong with the first network alone and 14 with the second alone."""
    found = compare_on_images(*answers(6, 4, 14, 76))
    a, b, n = 4.5, 14.5, 102
    middle, deviation = (a - b) / n, sqrt((a + b) - (a - b) ** 2 / n) / n
    assert found.images == 100
    assert found.difference == pytest.approx(-10.0)
    assert found.interval == pytest.approx(
        (100 * (middle - 1.96 * deviation), 100 * (middle + 1.96 * deviation)), abs=1e-3
    )
    assert found.interval == pytest.approx((-17.96, -1.64), abs=0.01)


@pytest.mark.parametrize(
    ("only_first", "only_second", "verdict"),
    [(2, 20, "better"), (20, 2, "worse"), (10, 11, "not told apart"), (0, 0, "not told apart")],
)
def test_the_verdict_is_that_of_the_first(only_first: int, only_second: int, verdict: str) -> None:
    found = compare_on_images(*answers(3, only_first, only_second, 60))
    assert found.verdict == verdict
    assert (found.difference < 0) == (only_first < only_second)
    low, high = found.interval
    assert low < high
    turned = compare_on_images(*reversed(answers(3, only_first, only_second, 60)))
    assert (turned.difference, turned.p) == (-found.difference, found.p)
    assert turned.interval == pytest.approx((-high, -low))


def test_networks_without_a_difference_are_not_known_to_be_equal() -> None:
    found = compare_on_images([False] * 30, [False] * 30)
    low, high = found.interval
    assert (found.difference, found.p) == (0.0, 1.0)
    assert low < 0 < high


@pytest.mark.parametrize(("first", "second"), [([True], [True, False]), ([], [])])
def test_other_images_do_not_compare(first: list[bool], second: list[bool]) -> None:
    with pytest.raises(ValueError, match=f"on the same images, but they have {len(first)} and {len(second)}"):
        compare_on_images(first, second)
