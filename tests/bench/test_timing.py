"""Turns, medians and ratios, on a clock that is not one."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from smallgroup.bench.cases import BenchRow, difference
from smallgroup.bench.timing import MeasuredTurns, Turn, alternate, ratio


class Clock:
    """Time passes when something is called, and not otherwise."""

    def __init__(self) -> None:
        self.now = 0.0
        self.called: list[str] = []

    def __call__(self) -> float:
        return self.now

    def takes(self, name: str, *seconds: float) -> Callable[[], Sequence[Tensor]]:
        """Something that takes these seconds, one after the other, and then the last ones again and again."""
        left = list(seconds)

        def call() -> Sequence[Tensor]:
            self.called.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]
            return [torch.tensor(float(len(self.called)))]

        return call


def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    clock = Clock()
    found = alternate(
        {"plain": clock.takes("plain", 100, 6, 4, 8), "fast": clock.takes("fast", 50, 2, 1, 3)}, 3, clock=clock
    )
    assert clock.called == ["plain", "fast"] * 4
    assert found["plain"].seconds == (6, 4, 8)
    assert all(0 < spent < 1 for one in found.values() for spent in one.cpu_seconds)  # of this process: almost nothing
    assert found["fast"].seconds == (2, 1, 3)
    assert (found["plain"].median, found["plain"].spread) == (6, (4, 8))
    # What is compared is the very first result.
    assert [float(found[name].first[0] or 0) for name in ("plain", "fast")] == [1, 2]


def test_cpu_seconds_are_measured_beside_those_of_a_clock() -> None:
    clock, cpu = Clock(), Clock()

    def call() -> Sequence[Tensor]:
        clock.now += 5  # of which the processor was busy for two
        cpu.now += 2
        return []

    found = alternate({"one": call}, 2, least=10, clock=clock, cpu_clock=cpu)["one"]
    assert found.seconds == (5, 5)
    assert found.cpu_seconds == (2, 2)
    assert found.on_the_processor.median == 2


def test_short_ones_are_called_several_times_and_their_mean_counts() -> None:
    clock = Clock()
    found = alternate({"short": clock.takes("short", 9, 0.25), "long": clock.takes("long", 2)}, 2, least=1, clock=clock)
    assert clock.called == ["short"] * 2 + ["long"] * 2 + (["short"] * 4 + ["long"]) * 2
    assert found["short"].seconds == (0.25, 0.25)
    assert found["long"].seconds == (2, 2)


def test_who_watches_is_told_of_every_turn_and_of_the_time_that_is_left() -> None:
    clock, turns = Clock(), list[Turn]()
    alternate({"a": clock.takes("a", 3), "b": clock.takes("b", 1)}, 2, watch=turns.append, clock=clock)
    assert [(turn.name, turn.round, turn.number, turn.turns) for turn in turns] == [
        ("a", 0, 0, 6),
        ("b", 0, 1, 6),
        ("a", 1, 2, 6),
        ("b", 1, 3, 6),
        ("a", 2, 4, 6),
        ("b", 2, 5, 6),
    ]
    assert [turn.left for turn in turns] == [None, None, 8, 5, 4, 1]


def test_no_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="rounds >= 1 must hold, but got rounds=0"):
        alternate({}, 0)


def test_a_ratio_is_that_of_the_medians_with_the_extremes_of_single_rounds() -> None:
    value, spread = ratio(MeasuredTurns((6, 4, 8)), MeasuredTurns((2, 1, 4)))
    assert value == 3
    assert spread == (2, 4)
    value, spread = ratio(MeasuredTurns((6.0, 5.0, 9.0)), MeasuredTurns((1.0, 5.0, 2.0)))
    assert value == 3  # though no round had it
    assert spread == (1, 6)


def test_results_are_compared_in_units_of_the_largest_number_of_each() -> None:
    assert difference([torch.tensor([4.0, -8.0])], [torch.tensor([4.0, -10.0])]) == pytest.approx(0.2)
    assert difference([torch.zeros(1), None], [torch.zeros(1), None]) == 0
    assert difference([torch.ones(1), torch.tensor([3e-9])], [torch.ones(1), torch.tensor([2e-9])]) == pytest.approx(
        0.5
    )


def test_sizes_stand_among_the_rest_of_a_row() -> None:
    row = BenchRow("a", 2.0, 1.0, 2.0, (2, 2), (2, 2), (1, 1), 4.0, 1.0, 4.0, (4, 4), 0.0, "torch", {"batch": 3})
    found = row.to_dict()
    assert found["batch"] == 3
    assert "sizes" not in found
    assert (found["name"], found["plain_seconds"], found["fast_seconds"], found["ratio"]) == ("a", 2, 1, 2)
