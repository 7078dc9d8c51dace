"""The table of a study: numbers over seeds, the paper's beside them, and what they say of the claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from smallgroup.config import Config, resolve
from smallgroup.data import data_root
from smallgroup.spaces import GROUND_TRUTHS, GroundTruth
from smallgroup.statistics import (
    Comparison,
    Summary,
    compare_paired,
    compare_unpaired,
    holm,
    over_retrainings,
    summarise,
)
from smallgroup.study.baselines import Lookups, picked
from smallgroup.study.file import Claim, keys_of
from smallgroup.study.measures import MEASURES, ON_HELD_OUT, ON_TEST_IMAGES, TRUE, Measure, Outcome
from smallgroup.study.plan import Line, Plan, Runs
from smallgroup.study.store import Store

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Entry:
    """A number of the table."""

    values: Mapping[int, float] = field(default_factory=dict)
    """By seed."""
    theirs: str | None = None
    """The paper's own."""
    retrained: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """Of every training of the cell of a seed, whose mean is the value."""

    @property
    def over_retrainings(self) -> float | None:
        """The deviation of trainings of one cell; None where there are too few."""
        return over_retrainings(list(self.retrained.values()))

    @property
    def summary(self) -> Summary | None:
        """None: no run has it yet."""
        return summarise(list(self.values.values())) if self.values else None


@dataclass(frozen=True)
class Shown:
    """A row of the table."""

    name: str
    entries: Mapping[str, Entry]
    """By measure."""
    all_learners: Entry
    """The primary measure, as the mean over all learners: what the rule of the answer has gained is not in it."""
    wanted: int
    """Runs it would have if all were done."""
    failed: Sequence[str] = ()
    without: Sequence[int] = ()
    """Seeds whose runs are done and have no number for the primary measure."""


@dataclass(frozen=True)
class Verdict:
    """What the numbers say of a claim at a point of the grid."""

    claim: Claim
    point: Mapping[str, Any]
    comparisons: Mapping[str, Comparison | None]
    """By the row that is compared with; None: no seed in common yet."""
    adjusted: Mapping[str, float | None]
    """p, for all comparisons of the table (Holm)."""
    possible: Mapping[str, float | None]
    """What those would be at least, were every comparison of the table as clear as its seeds allow."""

    @property
    def holds(self) -> bool:
        """Better than every one of them, and more than luck.

        In the median, and in the ranks, which p is about: a few large losses may outweigh many small gains.
        """
        return all(
            comparison is not None
            and comparison.difference > 0
            and (comparison.effect or 0.0) > 0
            and p is not None
            and p < SIGNIFICANT
            for comparison, p in zip(self.comparisons.values(), self.adjusted.values(), strict=True)
        )


@dataclass(frozen=True)
class Table:
    """All of it."""

    title: str
    columns: Sequence[str]
    primary: str
    rows: Sequence[Shown]
    verdicts: Sequence[Verdict]
    footer: Sequence[str]


def tabulated(plan: Plan, store: Store, footer: Sequence[str] = ()) -> Table:
    """From what is in the store now."""
    rows = [_shown(plan, line, store) for line in plan.lines]
    return Table(
        title=plan.study.title,
        columns=tuple(dict.fromkeys((*plan.study.columns, plan.study.primary))),
        primary=plan.study.primary,
        rows=rows,
        verdicts=_verdicts(plan, rows),
        footer=footer,
    )


def check_measurable(plan: Plan) -> None:
    """Refuse a study whose table could not be made, before hours are spent on its runs."""
    shown = {*plan.study.columns, plan.study.primary}
    for line in plan.lines:
        if shown & TRUE or line.row.baseline is not None:
            truth_for(resolve(keys_of(plan.study, line.point, line.row, plan.study.seeds[0])))
        for runs in line.runs.values():
            for name in shown & (ON_HELD_OUT | ON_TEST_IMAGES):
                _check_images(name, runs, line.name)


def _check_images(measure: str, runs: Runs, row: str) -> None:
    """A training looks at held-out images in place of the test images, if there are any."""
    after = runs.search if MEASURES[measure].phase == "search" else runs.trainings[0]
    share = after.config.data.held_out
    if measure in ON_HELD_OUT and not share:
        raise ValueError(
            f"{measure} needs data.held_out, a share of the training images that nobody trains on, but it is 0 in "
            f"{row!r}"
        )
    if measure in ON_TEST_IMAGES and share:
        raise ValueError(
            f"{measure} needs test images, but in {row!r} data.held_out is {share:g}, and its errors are those of "
            "held-out images: take held_out_error"
        )


def truth_for(config: Config) -> GroundTruth:
    """The table that says how good the cells of a search are."""
    root, dataset = data_root(config.data.data_root), config.data.dataset
    spaces = {(learner.space or config.space).name for learner in config.learners}
    tables = [kind for _, kind in GROUND_TRUTHS.usable() if kind.caveat is None]
    for kind in tables:
        truth = _found(kind.name, root) if spaces == {kind.space} else None
        if truth is not None and dataset in truth.columns and len(truth.columns) > 1:
            return truth
    known = " or ".join(kind.space for kind in tables)
    places = " or ".join(str(root / kind.name) for kind in tables)
    raise ValueError(
        f"true accuracies need searches in {known} and a table of {dataset} and another dataset in {places}; "
        "without one, take columns and a primary measure like validation_error"
    )


def looked_up_in(truth: GroundTruth, dataset: str) -> str:
    """The column that baselines may search when they are scored by that of a dataset."""
    return next(name for name in truth.columns if name != dataset)


@cache
def _found(name: str, root: Path) -> GroundTruth | None:
    """Read once."""
    return GROUND_TRUTHS[name].find(root)


def _shown(plan: Plan, line: Line, store: Store) -> Shown:
    study, theirs = plan.study, line.row.theirs
    measures = dict.fromkeys((*study.columns, study.primary))
    if line.row.baseline is not None:
        found = _of_baseline(plan, line)
        entries = {name: Entry(found.get(name, {}), theirs.get(name)) for name in measures}
        return Shown(line.name, entries, Entry(), len(study.seeds))
    outcomes = {seed: outcome for seed, runs in line.runs.items() if (outcome := store.outcome(runs)) is not None}
    entries = {
        name: Entry(
            _values(MEASURES[name], outcomes, line.row.take), theirs.get(name), _retrained(MEASURES[name], outcomes)
        )
        for name in measures
    }
    primary = MEASURES[study.primary]
    everyone = _values(primary, outcomes, "mean") if primary.of_learner is not None else {}
    failures = [
        f"seed {seed}: {why}"
        for seed, runs in line.runs.items()
        for run in runs.all
        if store.state(run) == "failed" and (why := store.failure(run)) is not None
    ]
    without = [seed for seed in outcomes if seed not in entries[study.primary].values]
    return Shown(line.name, entries, Entry(everyone), len(study.seeds), failures, without)


def _values(measure: Measure, outcomes: Mapping[int, Outcome], take: str) -> dict[int, float]:
    """By seed, where there is one."""
    found = {seed: measure.value(outcome, take) for seed, outcome in outcomes.items()}
    return {seed: value for seed, value in found.items() if value is not None}


def _retrained(measure: Measure, outcomes: Mapping[int, Outcome]) -> dict[int, Sequence[float]]:
    found = {seed: measure.each_training(outcome) for seed, outcome in outcomes.items()}
    known = {seed: [value for value in values if value is not None] for seed, values in found.items()}
    return {seed: values for seed, values in known.items() if values}


def _of_baseline(plan: Plan, line: Line) -> dict[str, dict[int, float]]:
    """Return true accuracies and percentiles by measure and seed; a cell without peers has no percentile at cost."""
    baseline = line.row.baseline
    assert baseline is not None
    found: dict[str, dict[int, float]] = {"true_accuracy": {}, "percentile": {}, "percentile_at_cost": {}}
    for seed in plan.study.seeds:
        config = resolve(keys_of(plan.study, line.point, line.row, seed))
        truth, column = truth_for(config), config.data.dataset
        cells = picked(baseline.kind, config, Lookups(truth, looked_up_in(truth, column), baseline.lookups))
        standings = [truth.standing(cell, column) for cell in (cells if line.row.take == "mean" else cells[:1])]
        found["true_accuracy"][seed] = fmean(standing.accuracy for standing in standings)
        found["percentile"][seed] = fmean(standing.percentile for standing in standings)
        at_cost = [value for standing in standings if (value := standing.percentile_at_cost) is not None]
        if len(at_cost) == len(standings):
            found["percentile_at_cost"][seed] = fmean(at_cost)
    return found


def _verdicts(plan: Plan, rows: Sequence[Shown]) -> list[Verdict]:
    """Every claim at every point of the grid; p values are adjusted for all comparisons together."""
    larger = MEASURES[plan.study.primary].larger_is_better
    sign = -1.0 if larger is False else 1.0
    by_place = {(line.row.name, _place(line.point)): (line, row) for line, row in zip(plan.lines, rows, strict=True)}
    points = list({_place(line.point): line.point for line in plan.lines}.items())
    made: list[tuple[Claim, Mapping[str, Any], dict[str, Comparison | None]]] = []
    for claim in plan.study.claims:
        for place, point in points:
            if any((name, place) not in by_place for name in (claim.row, *claim.than)):
                continue
            line, row = by_place[claim.row, place]
            others = {name: by_place[name, place] for name in claim.than}
            if any(_same_search(line, other) for other, _ in others.values()):  # nobody is better than oneself
                continue
            first = _signed(row, plan.study.primary, sign)
            found = {
                name: _compared(first, _signed(shown, plan.study.primary, sign), paired=_paired(line, other))
                for name, (other, shown) in others.items()
            }
            made.append((claim, point, found))
    every = [one for *_, found in made for one in found.values()]
    adjusted = iter(holm([None if one is None else one.p for one in every]))
    possible = iter(holm([None if one is None else one.least_p for one in every]))
    return [
        Verdict(claim, point, found, {name: next(adjusted) for name in found}, {name: next(possible) for name in found})
        for claim, point, found in made
    ]


def _same_search(first: Line, second: Line) -> bool:
    """Whether two rows are one search at their point, such as a group of one and a learner that is independent."""
    seeds = first.runs.keys() & second.runs.keys()
    return bool(seeds) and all(first.runs[seed].search == second.runs[seed].search for seed in seeds)


def _signed(row: Shown, measure: str, sign: float) -> dict[int, float]:
    return {seed: sign * value for seed, value in row.entries[measure].values.items()}


def _paired(first: Line, second: Line) -> bool:
    """Whether a seed means the same to both: cells that were looked up come from no split and no initial weights."""
    looked_up = [line.row.baseline is not None and line.row.baseline.kind != "untrained" for line in (first, second)]
    return not any(looked_up)


def _compared(first: Mapping[int, float], second: Mapping[int, float], *, paired: bool) -> Comparison | None:
    if not paired:
        return compare_unpaired(list(first.values()), list(second.values())) if first and second else None
    return compare_paired(first, second) if first.keys() & second.keys() else None


def _place(point: Mapping[str, Any]) -> str:
    return repr(sorted(point.items()))
