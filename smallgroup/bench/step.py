"""`bench step`: whole steps, plain against fast, and how the fast one grows with the number of learners."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise, product
from typing import Any

from smallgroup.bench.cases import BenchRow, row
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.network_step import NetworkStep
from smallgroup.bench.one_row import Contender, measured
from smallgroup.bench.paths import PLAIN
from smallgroup.bench.timing import Measured, Turn, Watch, ratio
from smallgroup.runtime.checks import check_counts

STANDARD: tuple[tuple[GroupStep | NetworkStep, dict[str, float]], ...] = (
    (GroupStep(), {"torch": 2.5, "native": 4.0}),
    (GroupStep(hypergradient="finite-difference"), {"torch": 2.5, "native": 4.0}),
    (GroupStep(space="nas-bench-201", cells_per_stage=1), {"torch": 1.5, "native": 2.0}),
    (GroupStep(space="nas-bench-201", cells_per_stage=5), {"torch": 1.5, "native": 2.0}),
    (NetworkStep(), {"torch": 1.5, "native": 2.0}),
)
"""What is measured unless something else is asked for, and how many times as fast each path is to be, at least."""
LARGER, AT_MOST = 4, 2.1
"""Learners of the group that the first of these is compared with, and how many times as long its step may take."""
QUICK = {"channels": 8, "cells": 3, "cells_per_stage": 1, "batch": 8, "size": 16}
"""Sizes that take seconds. What is won at them says little: the smaller a network, the more its time is overhead."""
ROUNDS = 3


@dataclass(frozen=True)
class Growth:
    """What a larger group costs: two fast steps that differ in the number of learners alone."""

    name: str
    learners: tuple[int, int]
    seconds: tuple[float, float]
    ratio: float
    """Of the larger group to the smaller."""
    spread: tuple[float, float]
    at_most: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """Which steps are measured."""

    cases: Sequence[GroupStep | NetworkStep]
    """In both forms."""
    beside: Sequence[GroupStep] = ()
    """The fast form alone."""
    at_least: Mapping[str, Mapping[str, float]] | None = None
    """By name and path: how large the ratio is to be."""


@dataclass(frozen=True)
class Steps:
    """What came of it."""

    rows: list[BenchRow]
    growth: list[Growth]
    at_least: list[float | None]

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it; `relative` is the fast time in units of the first row's."""
        unit = self.rows[0].fast_seconds
        return {
            "rows": [
                {**row.to_dict(), "relative": row.fast_seconds / unit, "at_least": least}
                for row, least in zip(self.rows, self.at_least, strict=True)
            ],
            "growth": [growth.to_dict() for growth in self.growth],
        }


def planned(which: Mapping[str, Sequence[Any]], sizes: Mapping[str, Any]) -> Plan:
    """Every combination of `which`, at these sizes; the standard steps where there is none.

    Args:
        which: values of `space`, `method`, `learners`, `hypergradient`; what is missing has its default.
        sizes: fields of the steps; those that are missing have theirs.
    """
    if which:
        return Plan(combined(which, sizes))
    cases = {_sized(case, sizes).name: _sized(case, sizes) for case, _ in STANDARD}  # sizes can make two of them one
    larger = _sized(replace(GroupStep(), learners=LARGER), sizes)
    assert isinstance(larger, GroupStep)
    return Plan(list(cases.values()), [larger], {case.name: least for case, least in STANDARD})


def combined(which: Mapping[str, Sequence[Any]], sizes: Mapping[str, Any]) -> list[GroupStep]:
    """Every combination, once."""
    values = [list(dict.fromkeys(given)) for given in which.values()]
    return [GroupStep(**dict(zip(which, chosen, strict=True)), **sizes) for chosen in product(*values)]


def measure(plan: Plan, path: str, rounds: int, watch: Watch | None = None) -> Steps:
    """One row after the other. What is compared takes turns in a process of its own.

    In one process for all, a form could take a third longer behind another row than by itself, and its peer not.
    """
    check_counts(rounds=rounds)
    growing = alike([case for case in (*plan.cases, *plan.beside) if isinstance(case, GroupStep)])
    jobs: list[list[Contender]] = [[(case, PLAIN), (case, path)] for case in plan.cases]
    jobs += [[(group, path) for group in groups] for groups in growing]
    turns = [(rounds + 1) * len(job) for job in jobs]
    found = [
        measured(job, rounds, None if watch is None else _as_part(watch, turns, number))
        for number, job in enumerate(jobs)
    ]
    rows = [row(case, plain, fast, path) for case, (plain, fast) in zip(plan.cases, found, strict=False)]
    growth = [
        one
        for groups, times in zip(growing, found[len(rows) :], strict=True)
        for one in grown(dict(zip(groups, times, strict=True)))
    ]
    return Steps(rows, growth, [(plan.at_least or {}).get(r.name, {}).get(path) for r in rows])


def _as_part(watch: Watch, turns: Sequence[int], number: int) -> Watch:
    """The turns of one row among those of all; how long all take is known only in the last one."""

    def told(turn: Turn) -> None:
        left = turn.left if number + 1 == len(turns) else None
        watch(turn._replace(number=sum(turns[:number]) + turn.number, turns=sum(turns), left=left))

    return told


def alike(groups: Sequence[GroupStep]) -> list[list[GroupStep]]:
    """Those that differ in the number of learners alone, where there are several, the smallest first."""
    found: dict[GroupStep, list[GroupStep]] = {}
    for group in groups:
        found.setdefault(replace(group, learners=1), []).append(group)
    return [sorted(members, key=lambda group: group.learners) for members in found.values() if len(members) > 1]


def grown(found: Mapping[GroupStep, Measured]) -> list[Growth]:
    """Of groups that differ in the number of learners alone, each with the next larger one."""
    result = []
    for members in alike(list(found)):
        for small, large in pairwise(members):
            before, after = found[small], found[large]
            value, spread = ratio(after, before)
            title = f"K={large.learners} / K={small.learners}"
            name = f"{title}, {large.name.replace(f', K={large.learners}', '')}"
            limit = AT_MOST if (small, large) == (GroupStep(), GroupStep(learners=LARGER)) else None
            numbers = (small.learners, large.learners)
            result.append(Growth(name, numbers, (before.median, after.median), value, spread, limit))
    return result


def _sized(case: GroupStep | NetworkStep, sizes: Mapping[str, Any]) -> GroupStep | NetworkStep:
    """With those sizes that it has."""
    own = {field.name for field in fields(case)}
    changes: dict[str, Any] = {name: value for name, value in sizes.items() if name in own}
    return replace(case, **changes)
