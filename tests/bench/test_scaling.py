"""The exponent of growth, where it is known."""

import pytest

from smallgroup.bench import scaling
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.plans import ScalingPoint, points
from smallgroup.bench.scaling import fitted
from smallgroup.bench.timing import MeasuredTurns


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_a_power_has_its_exponent(exponent: float) -> None:
    sizes = [2, 3, 5, 8]
    fit = fitted(sizes, [0.7 * size**exponent for size in sizes])
    assert fit.exponent == pytest.approx(exponent, abs=1e-12)
    assert fit.deviation == pytest.approx(0, abs=1e-12)
    assert fit.smallest == 2


def test_least_squares_of_the_logarithms() -> None:
    # Off by a factor at both ends alike: the slope stays, and the curve misses.
    fit = fitted([1, 2, 4], [1.0, 2.0 * 1.1**3, 4.0])
    assert fit.exponent == pytest.approx(1)
    assert fit.deviation == pytest.approx(1.1**2 - 1)


def test_a_learner_alone_is_shown_and_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def alternate(calls: dict[str, object], rounds: int, **_: object) -> dict[str, MeasuredTurns]:
        assert rounds == 1
        times = {1: 0.1, **{count: 3.0 * count for count in range(2, 9)}}
        return {name: MeasuredTurns((times[int(name.split("K=")[1][0])],)) for name in calls}

    monkeypatch.setattr(scaling, "alternate", alternate)
    monkeypatch.setattr(scaling, "prepared", lambda *_: None)
    found = scaling.measure(points(GroupStep(), ["learners"]), "torch", 1)
    assert [row["learners"] for row in found["rows"]] == list(range(1, 9))
    assert [row["fast_seconds"] for row in found["rows"]][:2] == [0.1, 6]
    assert found["exponents"]["learners"]["exponent"] == pytest.approx(1)
    assert found["exponents"]["learners"]["smallest"] == 2


def test_one_size_grows_at_a_time() -> None:
    base = GroupStep(batch=3, cells=4)
    assert points(base, ["batch", "batch"]) == [
        ScalingPoint("batch", size, GroupStep(batch=size, cells=4)) for size in (3, 6, 9, 12)
    ]
    assert [point.step.cells for point in points(base, ["cells"])] == [4, 8, 12, 16]
    other = GroupStep(space="nas-bench-201", cells_per_stage=2)
    assert [point.step.cells_per_stage for point in points(other, ["cells"])] == [2, 4, 6, 8]
    with pytest.raises(ValueError, match="over must be one of learners, batch, cells, channels, but got 'depth'"):
        points(base, ["depth"])
