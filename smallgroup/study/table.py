"""The table of a study: numbers over seeds, the paper's beside them, and what they say of the claims."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Literal

from smallgroup.config import Config, resolve
from smallgroup.spaces import GroundTruth
from smallgroup.statistics import (
    Comparison,
    Equivalence,
    Summary,
    compare_paired,
    compare_unpaired,
    equivalent_paired,
    holm,
    over_retrainings,
    summarize,
)
from smallgroup.study.baselines import Lookups, picked
from smallgroup.study.file import Claim, keys_of
from smallgroup.study.measures import (
    MEASURES,
    OF_CONSENSUS,
    OF_SCORES,
    ON_HELD_OUT,
    ON_OTHER_COLUMN,
    ON_TEST_IMAGES,
    OTHER_COLUMN,
    PREDICTED,
    TRUE,
    Measure,
)
from smallgroup.study.outcome import Outcome
from smallgroup.study.plan import Line, Plan, Runs
from smallgroup.study.store import Store
from smallgroup.study.truth import judge_for, surrogate_for, truth_for

SIGNIFICANT = 0.05
Side = Literal["better", "worse", "equivalent", "undecided"]
ClaimAnswer = Literal["yes", "no", "equivalent", "undecided", "not shown"]


@dataclass(frozen=True)
class Entry:
    """The values of one measure in one row."""

    values: Mapping[int, float] = field(default_factory=dict)
    """The value for each seed."""
    theirs: str | None = None
    """The number that the paper states."""
    retrained: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """The values of every training of a seed's cell, whose mean is the value."""

    @property
    def over_retrainings(self) -> float | None:
        """The deviation of trainings of one cell; None where there are too few."""
        return over_retrainings(list(self.retrained.values()))

    @property
    def summary(self) -> Summary | None:
        """Return mean, deviation and interval; None: no run has the number yet."""
        return summarize(list(self.values.values())) if self.values else None


@dataclass(frozen=True)
class Shown:
    """A row of the table with its numbers."""

    name: str
    entries: Mapping[str, Entry]
    """The entry for each measure."""
    all_learners: Entry
    """The primary measure, as the mean over all learners: what the rule of the answer has gained is not in it."""
    wanted: int
    """Runs it would have if all were done."""
    failed: Sequence[str] = ()
    without: Sequence[int] = ()
    """Seeds whose runs are done and have no number for the primary measure."""


@dataclass(frozen=True)
class Verdict:
    """The verdict of the numbers on a claim at a point of the grid."""

    claim: Claim
    measure: str
    """The one that it is about."""
    point: Mapping[str, Any]
    comparisons: Mapping[str, Comparison | None]
    """Comparisons by the row that is compared with; None: no seed in common yet."""
    adjusted: Mapping[str, float | None]
    """p, for all comparisons of the table by this measure (Holm)."""
    possible: Mapping[str, float | None]
    """What those would be at least, were every comparison as clear as its seeds allow."""
    equivalences: Mapping[str, Equivalence | None] = field(default_factory=dict)
    """Equivalence tests of a claim with a margin."""
    adjusted_equivalences: Mapping[str, float | None] = field(default_factory=dict)
    """Their p, adjusted in the same way."""

    def side(self, name: str) -> Side:
        """Return on which side of a row the claim's row lies, if the difference is more than chance.

        In the median, and in the ranks, which p is about: a few large losses may outweigh many small gains. Rows are
        called equivalent only where neither is shown to be better.
        """
        comparison, p, within = self.comparisons[name], self.adjusted[name], self.adjusted_equivalences.get(name)
        if comparison is not None and p is not None and p < SIGNIFICANT:
            effect = comparison.effect or 0.0
            if comparison.difference > 0 and effect > 0:
                return "better"
            if comparison.difference < 0 and effect < 0:
                return "worse"
        return "equivalent" if within is not None and within < SIGNIFICANT else "undecided"

    @property
    def holds(self) -> bool:
        """Whether the row is better than every row that the claim names."""
        return self.answer == "yes"

    @property
    def answer(self) -> ClaimAnswer:
        """Yes, where the row is better than all; without a margin, no other answer is possible.

        With one: equivalent, where it is so to all; no, where it is worse than one, or equivalent to it.
        """
        sides = [self.side(name) for name in self.comparisons]
        if all(side == "better" for side in sides):
            return "yes"
        if self.claim.margin is None:
            return "not shown"
        if all(side == "equivalent" for side in sides):
            return "equivalent"
        return "no" if {"worse", "equivalent"} & {*sides} else "undecided"


@dataclass(frozen=True)
class Table:
    """All rows, claims and notes of a study, ready to be written."""

    title: str
    columns: Sequence[str]
    primary: str
    rows: Sequence[Shown]
    verdicts: Sequence[Verdict]
    footer: Sequence[str]
    takes_means: bool = False
    """Whether all numbers of learners are means of all learners, so that no column is needed for those."""


def tabulated(plan: Plan, store: Store, footer: Sequence[str] = ()) -> Table:
    """Return the table of what the store has now."""
    rows = [_shown(plan, line, store) for line in plan.lines]
    return Table(
        title=plan.study.title,
        columns=plan.study.measures,
        primary=plan.study.primary,
        rows=rows,
        verdicts=_verdicts(plan, rows),
        footer=footer,
        takes_means=plan.study.takes_means,
    )


def check_measurable(plan: Plan) -> None:
    """Refuse a study whose table could not be made, before hours are spent on its runs."""
    shown = {*plan.study.measures}
    for line in plan.lines:
        if shown & (TRUE | PREDICTED) or line.row.baseline is not None:
            config = resolve(keys_of(plan.study, line.point, line.row, plan.study.seeds[0]))
            _check_judged(shown, config, looks_up=line.row.baseline is not None)
        for runs in line.runs.values():
            if shown & OF_CONSENSUS and (rule := runs.search.config.search.answer) != "consensus":
                raise ValueError(
                    f"{min(shown & OF_CONSENSUS)} needs search.answer: consensus, but in {line.name!r} it is {rule}"
                )
            for name in shown & (ON_HELD_OUT | ON_TEST_IMAGES):
                _check_images(name, runs, line.name)


def _check_judged(shown: Collection[str], config: Config, *, looks_up: bool) -> None:
    """Refuse a row that nothing can judge."""
    if looks_up:
        judge_for(config)
    if TRUE.intersection(shown):
        _check_truth(shown, truth_for(config), config.data.dataset)
    if PREDICTED.intersection(shown):
        surrogate_for(config)


def _check_truth(shown: Collection[str], truth: GroundTruth, dataset: str) -> None:
    """Refuse measures that the table does not have: not every table has every column, or effects of operations."""
    other = next((name for name in shown if name in ON_OTHER_COLUMN), None)
    if other is not None and OTHER_COLUMN not in truth.columns:
        raise ValueError(f"{other} needs a column {OTHER_COLUMN}, but the table has {', '.join(truth.columns)}")
    if OF_SCORES in shown and truth.effects_in_words(dataset) is None:
        raise ValueError(f"{OF_SCORES} needs the effects of operations, but {truth.name} has none")


def _check_images(measure: str, runs: Runs, row: str) -> None:
    """Refuse test measures with held-out images: a training then measures those in place of the test images."""
    after = runs.search if MEASURES[measure].phase == "search" else runs.trainings[0]
    share = after.config.data.held_out
    if measure in ON_HELD_OUT and not share:
        raise ValueError(
            f"{measure} needs data.held_out, a share of the images that is not trained on, but it is 0 in {row!r}"
        )
    if measure in ON_TEST_IMAGES and share:
        raise ValueError(
            f"{measure} needs test images, but in {row!r} data.held_out is {share:g}, and its errors are those of "
            "held-out images: take held_out_error"
        )


def _shown(plan: Plan, line: Line, store: Store) -> Shown:
    study, theirs = plan.study, line.row.theirs
    measures = study.measures
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
    """Return the values by seed, of seeds that have one."""
    found = {seed: measure.value(outcome, take) for seed, outcome in outcomes.items()}
    return {seed: value for seed, value in found.items() if value is not None}


def _retrained(measure: Measure, outcomes: Mapping[int, Outcome]) -> dict[int, Sequence[float]]:
    found = {seed: measure.each_training(outcome) for seed, outcome in outcomes.items()}
    known = {seed: [value for value in values if value is not None] for seed, values in found.items()}
    return {seed: values for seed, values in known.items() if values}


def _of_baseline(plan: Plan, line: Line) -> dict[str, dict[int, float]]:
    """Return accuracies, percentiles and skips by measure and seed; a cell without peers has no percentile at cost."""
    baseline = line.row.baseline
    assert baseline is not None
    found: dict[str, dict[int, float]] = {}
    for seed in plan.study.seeds:
        config = resolve(keys_of(plan.study, line.point, line.row, seed))
        judge = judge_for(config)
        every = picked(baseline.kind, config, Lookups(judge.truth, judge.looked_up, baseline.lookups))
        cells = every if line.row.take == "mean" else every[:1]
        standings = [standing for cell in cells if (standing := judge.standing(cell)) is not None]
        if not standings:
            continue
        names = ("predicted_accuracy", "predicted_percentile") if judge.predicts else ("true_accuracy", "percentile")
        found.setdefault(names[0], {})[seed] = fmean(standing.accuracy for standing in standings)
        found.setdefault(names[1], {})[seed] = fmean(standing.percentile for standing in standings)
        found.setdefault("skips", {})[seed] = fmean(cell.skips for cell in cells)
        at_cost = [value for standing in standings if (value := standing.percentile_at_cost) is not None]
        if at_cost:
            found.setdefault("percentile_at_cost", {})[seed] = fmean(at_cost)
    return found


def _verdicts(plan: Plan, rows: Sequence[Shown]) -> list[Verdict]:
    """Return every claim at every point of the grid; p values are adjusted over all comparisons by one measure."""
    by_place = {(line.row.name, _place(line.point)): (line, row) for line, row in zip(plan.lines, rows, strict=True)}
    points = list({_place(line.point): line.point for line in plan.lines}.items())
    made: list[Verdict] = []
    for claim in plan.study.claims:
        measure = claim.measure or plan.study.primary
        sign = -1.0 if MEASURES[measure].larger_is_better is False else 1.0
        for place, point in points:
            if any((name, place) not in by_place for name in (claim.row, *claim.than)):
                continue
            line, row = by_place[claim.row, place]
            others = {name: by_place[name, place] for name in claim.than}
            if any(_same_search(line, other) for other, _ in others.values()):  # nobody is better than oneself
                continue
            first = _signed(row, measure, sign)
            seconds = {name: _signed(shown, measure, sign) for name, (_, shown) in others.items()}
            found = {
                name: _compared(first, seconds[name], paired=_paired(line, other))
                for name, (other, _) in others.items()
            }
            within = {
                name: equivalent_paired(first, second, claim.margin) if first.keys() & second.keys() else None
                for name, second in seconds.items()
                if claim.margin is not None
            }
            made.append(Verdict(claim, measure, point, found, {}, {}, within))
    return [_adjusted(one, [other for other in made if other.measure == one.measure]) for one in made]


def _adjusted(own: Verdict, family: Sequence[Verdict]) -> Verdict:
    """Adjust the p values of a claim for all comparisons of its family, which it belongs to."""
    places = [(one is own, name) for one in family for name in one.comparisons]
    every = [found for one in family for found in one.comparisons.values()]
    adjusted = holm([None if found is None else found.p for found in every])
    possible = holm([None if found is None else found.least_p for found in every])
    within = [(one is own, name, found) for one in family for name, found in one.equivalences.items()]
    small = holm([None if found is None else found.p for *_, found in within])
    return replace(
        own,
        adjusted={name: p for (is_own, name), p in zip(places, adjusted, strict=True) if is_own},
        possible={name: p for (is_own, name), p in zip(places, possible, strict=True) if is_own},
        adjusted_equivalences={name: p for (is_own, name, _), p in zip(within, small, strict=True) if is_own},
    )


def _same_search(first: Line, second: Line) -> bool:
    """Return whether two rows are one search at their point, such as a group of one and an independent learner."""
    seeds = first.runs.keys() & second.runs.keys()
    return bool(seeds) and all(first.runs[seed].search == second.runs[seed].search for seed in seeds)


def _signed(row: Shown, measure: str, sign: float) -> dict[int, float]:
    return {seed: sign * value for seed, value in row.entries[measure].values.items()}


def _paired(first: Line, second: Line) -> bool:
    """Return whether a seed has the same meaning in both rows."""
    return all(line.row.baseline is None or line.row.baseline.paired for line in (first, second))


def _compared(first: Mapping[int, float], second: Mapping[int, float], *, paired: bool) -> Comparison | None:
    if not paired:
        return compare_unpaired(list(first.values()), list(second.values())) if first and second else None
    return compare_paired(first, second) if first.keys() & second.keys() else None


def _place(point: Mapping[str, Any]) -> str:
    return repr(sorted(point.items()))
