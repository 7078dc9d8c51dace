"""Read the cells of finished searches off their logged scores once more, without `none`.

`python -m smallgroup.study.rederived STUDY... --out studies` computes nothing again: it takes the scores that
`metrics.jsonl` has of the last epoch (four digits of each; on equal scores the first operation counts), derives cells
as searches do by default, and looks them up in the table of their space. It prints, for every study, a table in
Markdown and how its rows compare with architectures before their first step.

At-cost percentiles are means over the answers that have one: the costliest cell has no peers of its cost.
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from smallgroup.config import Config, resolve
from smallgroup.methods import Relaxed
from smallgroup.phases.search.result import SearchResult
from smallgroup.runner.metrics import read_current_rows
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import GroundTruth, definition_of
from smallgroup.spaces.choices import Scores
from smallgroup.spaces.ground_truth import Standing
from smallgroup.spaces.kinds import Rule
from smallgroup.statistics import compare_paired, summarize
from smallgroup.study.file import keys_of, open_study
from smallgroup.study.plan import Line, Plan, PlannedRun, planned
from smallgroup.study.store import Store
from smallgroup.study.truth import truth_for

UNTRAINED = "untrained"
TITLES = (
    "row",
    "n",
    "retained, as stored",
    "retained",
    "mean of learners",
    "consensus",
    "retained, at cost",
    "mean of learners, at cost",
    "consensus, at cost",
    "without peers",
)
"""Of the table; percentiles, all but the first without `none`. The last counts consensus cells that have no peers."""


@dataclass(frozen=True)
class Answers:
    """The cells of one search, by the default derivation, as the table has them."""

    learners: tuple[Standing, ...]
    retained: int
    """Index of the retained learner."""
    consensus: Standing
    """Value of the cell derived from the mean of all learners' scores."""
    stored: float | None = None
    """The percentile of the retained cell as the run derived it; None where no run did."""

    @property
    def mean(self) -> float:
        """The percentile in the mean of all learners."""
        return fmean(learner.percentile for learner in self.learners)

    @property
    def mean_at_cost(self) -> float | None:
        """The same at cost, over the learners that have one."""
        known = [value for learner in self.learners if (value := learner.percentile_at_cost) is not None]
        return fmean(known) if known else None


def derive_again(scores: Sequence[Scores], retained: int, truth: GroundTruth, column: str) -> Answers:
    """Derive the cell of each learner, and that of all together, from [edges, operations] scores of each."""
    space, rule = definition_of(truth.space).at_any_size(), Rule("top2")
    mean = {kind: torch.stack([own[kind] for own in scores]).mean(dim=0) for kind in scores[0]}
    cells = [space.derive(own, rule) for own in (*scores, mean)]
    *learners, consensus = (truth.standing(cell, column) for cell in cells)
    return Answers(tuple(learners), retained, consensus)


def last_scores(path: Path, space: str) -> list[Scores]:
    """Return [edges, operations] of every learner by kind of cell, from the last epoch that metrics have."""
    found: dict[int, Any] = {}
    for row in read_current_rows(path):
        found[row.get("learner", -1)] = row.get("scores")
    kinds = definition_of(space).kinds
    try:
        learners = [found[k] for k in range(len(found))]
        tables = [{kind: torch.tensor(own[kind], dtype=torch.float64) for kind in kinds} for own in learners]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path} must have the scores of a cell of {space}, but has none") from None
    if not tables:
        raise ValueError(f"{path} must have the scores of a search, but has none")
    return list[Scores](tables)


def of_run(run: PlannedRun, store: Store) -> Answers | None:
    """Return what a finished search comes to; None if it is not finished."""
    result, column = store.result(run), run.config.data.dataset
    if not isinstance(result, SearchResult):
        return None
    truth = truth_for(run.config)
    scores = last_scores(store.place(run) / "metrics.jsonl", truth.space)
    found = derive_again(scores, result.retained, truth, column)
    return replace(found, stored=(result.group[result.retained].percentile or {}).get(column))


def of_untrained(config: Config) -> Answers:
    """Return what the learners of a search would be before its first step; the first of them is the retained one."""
    scores = []
    for number, learner in enumerate(config.learners):
        space = (learner.space or config.space).build(ImageSpec())
        relaxed = Relaxed(space, config.build_method(learner), seed=config.seed, learner=number)
        own = relaxed.method.scores(relaxed.initial_architecture())
        scores.append({kind: table.detach().double() for kind, table in own.items()})
    return derive_again(scores, 0, truth_for(config), config.data.dataset)


def of_line(plan: Plan, line: Line, store: Store) -> dict[int, Answers]:
    """Return, by seed, what the searches of a row come to."""
    if line.row.baseline is not None:
        configs = {seed: resolve(keys_of(plan.study, line.point, line.row, seed)) for seed in plan.study.seeds}
        return {seed: of_untrained(config) for seed, config in configs.items()}
    found = {}
    for seed, runs in line.runs.items():
        answers, result = of_run(runs.search, store), store.result(runs.search)
        if answers is None or not isinstance(result, SearchResult):
            continue
        if line.row.take == "first":  # of searches that do not meet: a search of its own
            first, stored = answers.learners[0], result.group[0].percentile or {}
            answers = Answers((first,), 0, first, stored.get(runs.search.config.data.dataset))
        found[seed] = answers
    return found


def tabulate_again(plan: Plan, store: Store) -> dict[str, dict[int, Answers]]:
    """Return the answers of every row that is a search or an architecture before its first step."""
    return {line.name: of_line(plan, line, store) for line in plan.lines if _is_derived(line)}


def _is_derived(line: Line) -> bool:
    return line.row.baseline is None or line.row.baseline.kind == UNTRAINED


def markdown(rows: Mapping[str, Mapping[int, Answers]]) -> str:
    """Return the table: means over seeds, with standard deviations where nothing is at cost."""
    lines = [TITLES, ("---",) * len(TITLES)]
    lines += [_row(name, list(answers.values())) for name, answers in rows.items() if answers]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(name: str, answers: Sequence[Answers]) -> tuple[str, ...]:
    retained = [one.learners[one.retained] for one in answers]
    at_cost = [one.percentile_at_cost for one in retained]
    together = [one.consensus.percentile_at_cost for one in answers]
    return (
        name,
        str(len(answers)),
        _mean([one.stored for one in answers]),
        _mean([one.percentile for one in retained]),
        _mean([one.mean for one in answers]),
        _mean([one.consensus.percentile for one in answers]),
        _mean(at_cost, spread=False),
        _mean([one.mean_at_cost for one in answers], spread=False),
        _mean(together, spread=False),
        str(together.count(None)),
    )


def _mean(values: Sequence[float | None], *, spread: bool = True) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    found = summarize(known)
    return f"{found.mean:.1f}" if found.std is None or not spread else f"{found.mean:.1f} ± {found.std:.1f}"


def comparisons(plan: Plan, rows: Mapping[str, Mapping[int, Answers]]) -> list[str]:
    """Return a sentence for every pair of rows that a claim of the study names, and for searches beside untrained."""
    claimed = {(claim.row, other) for claim in plan.study.claims for other in claim.than}
    lines = [line for line in plan.lines if rows.get(line.name)]
    pairs = [
        (first.name, second.name)
        for first in lines
        for second in lines
        if first.point == second.point
        and first.name != second.name
        and ((first.row.name, second.row.name) in claimed or second.row.name == UNTRAINED)
        and rows[first.name] != rows[second.name]  # nobody is better than oneself
    ]
    return [_compared(first, second, rows[first], rows[second]) for first, second in pairs]


def _compared(name: str, other: str, first: Mapping[int, Answers], second: Mapping[int, Answers]) -> str:
    parts = []
    alone = any(len(one.learners) == 1 for one in (*first.values(), *second.values()))
    for title, value in list(_COMPARED.items())[: 1 if alone else None]:  # of one learner, all three are the same
        found = compare_paired(*({seed: value(one) for seed, one in row.items()} for row in (first, second)))
        p = "" if found.p is None else f", p = {found.p:.2g}"
        parts.append(f"{title} {found.difference:+.1f} (better in {found.better} of {found.n[0]}{p})")
    return f"{name} against {other}: {', '.join(parts)}"


_COMPARED: dict[str, Callable[[Answers], float]] = {
    "retained": lambda one: one.learners[one.retained].percentile,
    "mean of learners": lambda one: one.mean,
    "consensus": lambda one: one.consensus.percentile,
}


def untaught_learners(plans: Sequence[Plan], store: Store) -> list[str]:
    """Return sentences on all learners that nobody teaches, as often as runs have them and each once.

    Such a learner is the same whoever searches beside it: that of a seed and number is in several runs.
    """
    runs = {run.key: run for plan in plans for run in plan.runs if run.trains is None and run.config.lam == 0}
    found: list[tuple[tuple[int, int], float, Standing]] = []
    for run in runs.values():
        answers, result = of_run(run, store), store.result(run)
        if answers is not None and isinstance(result, SearchResult):
            column = run.config.data.dataset
            stored = [(one.percentile or {}).get(column, math.nan) for one in result.group]
            found += [((run.config.seed, k), stored[k], one) for k, one in enumerate(answers.learners)]
    once = {who: (stored, now) for who, stored, now in found}
    every = [(stored, now) for _, stored, now in found]
    return [
        f"{title} ({len(own)}): {fmean(stored for stored, _ in own):.1f} as stored, "
        f"{_mean([now.percentile for _, now in own])} without `none`, "
        f"{_mean([now.percentile_at_cost for _, now in own], spread=False)} at cost"
        for title, own in (("learners without teaching", every), ("each of them once", list(once.values())))
        if own
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of the studies that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m smallgroup.study.rederived", description=__doc__)
    parser.add_argument("studies", nargs="+", help="study files or names, as for `smallgroup study`")
    parser.add_argument("--out", type=Path, default=Path("studies"), help="where their runs are")
    given = parser.parse_args(arguments)
    plans, store = [planned(*open_study(name)) for name in given.studies], Store(given.out)
    for plan in plans:
        rows = tabulate_again(plan, store)
        said = "".join(f"- {sentence}\n" for sentence in comparisons(plan, rows))
        sys.stdout.write(f"## {plan.name}\n\n{markdown(rows)}\n{said}\n")
    sys.stdout.write("".join(f"- {sentence}\n" for sentence in untaught_learners(plans, store)))


if __name__ == "__main__":
    main()
