"""Compute the claim of primary.yaml once more with 50 for cells without others of their cost, and one-sided bounds.

The protocol asks for the first. The second is explored: of each comparison, the largest benefit that the seeds do not
rule out, by a one-sided t-test at 5 % of the mean paired difference.

    python results/teaching-2/bounds.py studies
"""

import argparse
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy import stats

from smallgroup.statistics import compare_paired, equivalent_paired
from smallgroup.study import Store, open_study, planned
from smallgroup.study.measures import MEASURES

GROUP, CONTROLS = "teaching pair", ("self-taught pair", "independent pair")
MARGIN = 5.0


def read(store: Store, missing: float | None) -> dict[str, dict[int, float]]:
    """Return the primary endpoint by arm and seed; `missing` takes the place of a percentile that a learner lacks."""
    name, study = open_study(str(Path(__file__).with_name("primary.yaml")))
    of_learner = MEASURES["percentile_at_cost"].of_learner
    assert of_learner is not None
    found: dict[str, dict[int, float]] = {}
    for line in planned(name, study).lines:
        if line.name not in (GROUP, *CONTROLS):
            continue
        for seed, runs in line.runs.items():
            outcome = store.outcome(runs)
            assert outcome is not None, f"seed {seed} of {line.name} is not finished"
            values = [of_learner(outcome, k) for k in range(outcome.search.learners)]
            known = [missing if value is None else value for value in values]
            if present := [value for value in known if value is not None]:
                found.setdefault(line.name, {})[seed] = fmean(present)
    return found


def main() -> None:
    """Print both comparisons in both forms."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("store", type=Path, help="the folder of the studies")
    store = Store(parser.parse_args().store)
    for title, missing in (("left out", None), ("50 in their place", 50.0)):
        found = read(store, missing)
        print(f"cells without others of their cost: {title}")
        for control in CONTROLS:
            own, other = found[GROUP], found[control]
            seeds = sorted(set(own) & set(other))
            differences = np.array([own[seed] - other[seed] for seed in seeds])
            compared = compare_paired(own, other)
            same = equivalent_paired(own, other, MARGIN)
            t = stats.ttest_1samp(differences, MARGIN, alternative="less")
            bound = differences.mean() + stats.t.ppf(0.95, len(seeds) - 1) * stats.sem(differences)
            print(
                f"  {GROUP} - {control}: n = {len(seeds)}, mean {differences.mean():+.2f}, "
                f"deviation {differences.std(ddof=1):.1f}, signed ranks p = {compared.p:.3f}, "
                f"within {MARGIN:g}: p = {same.p:.3f}; benefit below {bound:+.2f} at 5 % one-sided, "
                f"p of a benefit of {MARGIN:g} or more = {t.pvalue:.2g}"
            )


if __name__ == "__main__":
    main()
