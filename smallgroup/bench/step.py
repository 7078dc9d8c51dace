"""`bench step`: whole steps, plain against fast, and how the fast one grows with the number of learners."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from smallgroup.bench.cases import BenchRow, row
from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.one_row import Contender, measured
from smallgroup.bench.paths import PLAIN
from smallgroup.bench.plans import AT_MOST, LARGER, StepPlan
from smallgroup.bench.timing import MeasuredTurns, Turn, TurnWatch, ratio
from smallgroup.runtime.checks import check_counts

ROUNDS = 3


@dataclass(frozen=True)
class Growth:
    """The cost of a larger group: two fast steps that differ in the number of learners alone."""

    name: str
    learners: tuple[int, int]
    seconds: tuple[float, float]
    ratio: float
    """The ratio of the larger group to the smaller."""
    spread: tuple[float, float]
    at_most: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `--json` prints."""
        return asdict(self)


@dataclass(frozen=True)
class MeasuredSteps:
    """The rows and the growth that `bench step` measured."""

    rows: list[BenchRow]
    growth: list[Growth]
    at_least: list[float | None]

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as `--json` prints them; `relative` is the fast time in units of the first row's."""
        unit = self.rows[0].fast_seconds
        return {
            "rows": [
                {**row.to_dict(), "relative": row.fast_seconds / unit, "at_least": least}
                for row, least in zip(self.rows, self.at_least, strict=True)
            ],
            "growth": [growth.to_dict() for growth in self.growth],
        }


def measure(plan: StepPlan, path: str, rounds: int, watch: TurnWatch | None = None) -> MeasuredSteps:
    """Measure one row after the other. What is compared takes turns in a process of its own.

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
    return MeasuredSteps(rows, growth, [(plan.at_least or {}).get(r.name, {}).get(path) for r in rows])


def _as_part(watch: TurnWatch, turns: Sequence[int], number: int) -> TurnWatch:
    """Return a watch that counts the turns of one row among those of all; the total is known only in the last row."""

    def told(turn: Turn) -> None:
        left = turn.left if number + 1 == len(turns) else None
        watch(turn._replace(number=sum(turns[:number]) + turn.number, turns=sum(turns), left=left))

    return told


def alike(groups: Sequence[GroupStep]) -> list[list[GroupStep]]:
    """Return groups of steps that differ in the number of learners alone, the smallest first."""
    found: dict[GroupStep, list[GroupStep]] = {}
    for group in groups:
        found.setdefault(replace(group, learners=1), []).append(group)
    return [sorted(members, key=lambda group: group.learners) for members in found.values() if len(members) > 1]


def grown(found: Mapping[GroupStep, MeasuredTurns]) -> list[Growth]:
    """Return the growth from each group to the next larger one; groups differ in the number of learners alone."""
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
