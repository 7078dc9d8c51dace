"""What the outcomes come to: errors of every arm, and `run` against each of the others, paired by seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

import scipy  # its parts are loaded when they are used

from smallgroup.bench.outcome import store
from smallgroup.bench.outcome.arms import ArmOutcome
from smallgroup.bench.outcome.plan import OutcomeTable

MARGIN = 1.0
"""Points of test error that matter."""
RUN = "run"


@dataclass(frozen=True)
class Paired:
    """Errors of `run` minus those of another arm, over the seeds that both have; below 0, `run` is better."""

    seeds: int
    difference: float
    interval: tuple[float, float] | None
    """95 %, of Student's t; None with one seed."""

    @property
    def verdict(self) -> Literal["better", "worse", "behind by less than the margin", "not told apart", "one seed"]:
        """What can be said of `run`: behind by less than the margin is what is not worse by a point."""
        if self.interval is None:
            return "one seed"
        low, high = self.interval
        if high < 0:
            return "better"
        if low > 0:
            return "behind by less than the margin" if high < MARGIN else "worse"
        return "not told apart"


@dataclass(frozen=True)
class OutcomeRow:
    """The outcomes of one arm on one task."""

    arm: str
    outcomes: Mapping[int, ArmOutcome]
    """The outcome for each seed."""
    paired: Paired | None
    """None of `run` itself, and where no seed is common."""

    @property
    def error(self) -> float:
        """Return the mean test error over the seeds."""
        return fmean(one.test_error for one in self.outcomes.values())

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the test error between seeds; 0 for a single one."""
        return stdev(one.test_error for one in self.outcomes.values()) if len(self.outcomes) > 1 else 0.0

    def mean(self, name: str) -> float:
        """Return the mean of another number of the outcomes."""
        return fmean(float(getattr(one, name)) for one in self.outcomes.values())


def paired(own: Mapping[int, float], other: Mapping[int, float]) -> Paired | None:
    """Compare over the seeds that both have; None if there is none."""
    seeds = sorted(own.keys() & other.keys())
    if not seeds:
        return None
    differences = [own[seed] - other[seed] for seed in seeds]
    middle = fmean(differences)
    if len(seeds) == 1:
        return Paired(1, middle, None)
    reach = float(scipy.stats.t.ppf(0.975, len(seeds) - 1)) * stdev(differences) / math.sqrt(len(seeds))
    return Paired(len(seeds), middle, (middle - reach, middle + reach))


def rows(folder: Path, table: OutcomeTable) -> list[OutcomeRow]:
    """Return the arms of a table that have outcomes, in their order."""
    found: dict[str, dict[int, ArmOutcome]] = {}
    for unit in table.units():
        outcome = store.read(folder, unit)
        if outcome is not None:
            found.setdefault(unit.arm, {})[unit.seed] = outcome
    own = {seed: one.test_error for seed, one in found.get(RUN, {}).items()}
    return [
        OutcomeRow(
            arm,
            outcomes,
            None if arm == RUN else paired(own, {seed: one.test_error for seed, one in outcomes.items()}),
        )
        for arm, outcomes in found.items()
    ]


HEADER = (
    "arm", "test error, %", "run minus arm, points", "95 % interval", "verdict on run",
    "parameters", "multiply-adds", "epochs", "CPU seconds", "seeds",
)  # fmt: skip


def cells(table_rows: Sequence[OutcomeRow]) -> list[tuple[str, ...]]:
    """Return the rows of the table as text."""
    found: list[tuple[str, ...]] = []
    for row in table_rows:
        compared = row.paired
        interval = None if compared is None else compared.interval
        found.append(
            (
                row.arm,
                f"{row.error:.2f} ± {row.deviation:.2f}",
                "" if compared is None else f"{compared.difference:+.2f}",
                "" if interval is None else f"[{interval[0]:+.2f}, {interval[1]:+.2f}]",
                "" if compared is None else compared.verdict,
                f"{row.mean('parameters'):,.0f}",
                f"{row.mean('multiply_adds'):,.0f}",
                f"{row.mean('epochs'):.0f}",
                f"{row.mean('cpu_seconds'):.0f}",
                str(len(row.outcomes)),
            )
        )
    return found


def markdown(folder: Path, tables: Sequence[OutcomeTable]) -> str:
    """Return every table that has outcomes, as Markdown."""
    parts = []
    for table in tables:
        found = rows(folder, table)
        if not found:
            continue
        done = sum(len(row.outcomes) for row in found)
        lines = [f"## {table.task.name}: {table.task.seconds:.0f} CPU seconds for everything", ""]
        lines += ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
        lines += ["| " + " | ".join(each) + " |" for each in cells(found)]
        whole = len(table.arms) * len(table.seeds)
        lines += ["", f"{done} of {whole} outcomes. ± is the standard deviation between seeds; intervals are paired."]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
