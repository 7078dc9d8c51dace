"""Which steps the commands of `smallgroup bench` measure: known, and refused if wrong, before torch is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from smallgroup.bench.group_step import DEPTHS, GroupStep
from smallgroup.bench.network_step import NetworkStep
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces import SPACES, definition_of

_OTHERS = [GroupStep(space=name, **sizes) for name in SPACES.built_in for sizes in definition_of(name).benched]
STANDARD: tuple[tuple[GroupStep | NetworkStep, dict[str, float]], ...] = (
    (GroupStep(), {"torch": 2.5, "native": 4.0}),
    (GroupStep(hypergradient="finite-difference"), {"torch": 2.5, "native": 4.0}),
    *((step, {"torch": 1.5, "native": 2.0}) for step in _OTHERS),
    (NetworkStep(), {"torch": 1.5, "native": 2.0}),
)
"""What is measured unless something else is asked for, and how many times as fast each path is to be, at least."""
LARGER, AT_MOST = 4, 2.1
"""Learners of the group that the first of these is compared with, and how many times as long its step may take."""
QUICK = {"channels": 8, "cells": 3, "cells_per_stage": 1, "batch": 8, "size": 16}
"""Sizes that take seconds. What is won at them says little: the smaller a network, the more its time is overhead."""
DIMENSIONS = ("learners", "batch", "cells", "channels")
GROWN = {"channels": 16, "cells": 6, "cells_per_stage": 1, "batch": 16, "size": 32}
QUICK_GROWN = {"channels": 4, "cells": 3, "cells_per_stage": 1, "batch": 4, "size": 16}
_LEARNERS = range(1, 9)
_TIMES = (1, 2, 3, 4)


@dataclass(frozen=True)
class StepPlan:
    """The steps that `bench step` measures."""

    cases: Sequence[GroupStep | NetworkStep]
    """Steps that are measured in both forms."""
    beside: Sequence[GroupStep] = ()
    """Steps that are measured in the fast form alone."""
    at_least: Mapping[str, Mapping[str, float]] | None = None
    """Goals for the ratio, by name and path."""


def planned(which: Mapping[str, Sequence[Any]], sizes: Mapping[str, Any]) -> StepPlan:
    """Return every combination of `which`, at these sizes; the standard steps where there is none.

    Args:
        which: values of `space`, `method`, `learners`, `hypergradient`; what is missing has its default.
        sizes: fields of the steps; those that are missing have theirs.
    """
    if which:
        return StepPlan(combined(which, sizes))
    cases = {_sized(case, sizes).name: _sized(case, sizes) for case, _ in STANDARD}  # sizes can make two of them one
    larger = _sized(replace(GroupStep(), learners=LARGER), sizes)
    assert isinstance(larger, GroupStep)
    return StepPlan(list(cases.values()), [larger], {case.name: least for case, least in STANDARD})


def combined(which: Mapping[str, Sequence[Any]], sizes: Mapping[str, Any]) -> list[GroupStep]:
    """Return every combination of the given values, each once."""
    values = [list(dict.fromkeys(given)) for given in which.values()]
    return [GroupStep(**dict(zip(which, chosen, strict=True)), **sizes) for chosen in product(*values)]


@dataclass(frozen=True)
class ScalingPoint:
    """A step at one value of the size that grows."""

    dimension: str
    value: int
    step: GroupStep

    @property
    def name(self) -> str:
        """Return the size that grows, and its value."""
        return f"{self.dimension} = {self.value}"


def base_of_growth(which: Mapping[str, Any], sizes: Mapping[str, Any]) -> GroupStep:
    """Return the step that the others grow from: what is not given is as in a short search."""
    return GroupStep(**which, **{**GROWN, **sizes})


def points(base: GroupStep, dimensions: Sequence[str]) -> list[ScalingPoint]:
    """Return 1 to 8 learners, and one to four times the batch, cells and channels of the base."""
    found = []
    for dimension in dict.fromkeys(dimensions):
        check_choice("over", dimension, DIMENSIONS)
        if dimension == "cells" and base.depth is None:
            raise ValueError(f"over cells needs a space with one of the keys {', '.join(DEPTHS)}, but got {base.space}")
        field = str(base.depth) if dimension == "cells" else dimension
        first = int(getattr(base, field))
        values = _LEARNERS if dimension == "learners" else [first * times for times in _TIMES]
        for value in values:
            change: dict[str, Any] = {field: value}
            found.append(ScalingPoint(dimension, value, replace(base, **change)))
    return found


def _sized(case: GroupStep | NetworkStep, sizes: Mapping[str, Any]) -> GroupStep | NetworkStep:
    """Return a step with those of the given sizes that it has."""
    own = {field.name for field in fields(case)}
    changes: dict[str, Any] = {name: value for name, value in sizes.items() if name in own}
    return replace(case, **changes)
