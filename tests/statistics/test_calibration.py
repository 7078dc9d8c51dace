"""The expected calibration error against values worked out by hand."""

import pytest

from smallgroup.statistics.calibration import BINS, calibration_error, reliability


def test_by_hand() -> None:
    # Two answers of 0.9 (one right), one of 0.55 (right), one of exactly 2/15 (wrong).
    bins = reliability([0.9, 0.9, 0.55, 2 / 15], [True, False, True, False])
    assert len(bins) == BINS
    assert [(k, one.images) for k, one in enumerate(bins) if one.images] == [(1, 1), (8, 1), (13, 2)]
    assert bins[13].confidence == pytest.approx(0.9)
    assert bins[13].accuracy == 0.5
    assert bins[0].confidence is None
    expected = (1 * abs(0 - 2 / 15) + 1 * abs(1 - 0.55) + 2 * abs(0.5 - 0.9)) / 4
    assert calibration_error(bins) == pytest.approx(100 * expected)


def test_over_and_under_confidence_do_not_cancel_between_bins_but_do_within_one() -> None:
    between = reliability([0.95, 0.95, 0.55, 0.55], [False, False, True, True])
    assert calibration_error(between) == pytest.approx(100 * (0.95 + 0.45) / 2)
    within = reliability([0.5, 0.5], [True, False])
    assert calibration_error(within) == pytest.approx(0.0)


def test_certain_answers_and_rounding_above_one() -> None:
    assert calibration_error(reliability([1.0, 1.0], [True, True])) == 0
    assert reliability([1.0 + 1e-12], [True])[-1].images == 1
