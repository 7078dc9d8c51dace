"""Show what learners learn in the runs of primary.yaml, epoch by epoch: errors, soft labels, and weak classes.

It reads the metrics of finished searches and computes nothing again. All of it is explored: the protocol makes no claim
of it. `catch_up` asks whether pupils gain where their teachers are better. For every seed, learner and class, it takes
the advantage of the peer's V over the learner's own V in recognizing the class, and the gain of the learner's W over
the W of the independent learner with the same initial weights. The correlation of the two is that of the group. In the
self-taught pair the same peer is there but does not teach: its correlation is the control.

    python results/teaching-2/learning.py studies --out results/teaching-2/learning.json
"""

import argparse
import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from scipy import stats

from smallgroup.runner.metrics import read_current_rows
from smallgroup.study import Store, open_study, planned

ARMS = ("teaching pair", "self-taught pair", "independent pair")
GROUP, SELF_TAUGHT, INDEPENDENT = ARMS
KEYS = (
    "v_error",
    "w_error",
    "w_validation_loss",
    "derived_error",
    "label_entropy",
    "agreement",
    "norm_direct",
    "norm_own",
    "norm_label",
    "norm_cross",
)
Rows = list[dict[str, Any]]


def read(store: Store) -> dict[str, dict[int, Rows]]:
    """Return the metrics of every finished search by arm and seed."""
    name, study = open_study(str(Path(__file__).with_name("primary.yaml")))
    found: dict[str, dict[int, Rows]] = {arm: {} for arm in ARMS}
    for line in planned(name, study).lines:
        for seed, runs in line.runs.items():
            if line.name in found and store.result(runs.search) is not None:
                found[line.name][seed] = list(read_current_rows(store.place(runs.search) / "metrics.jsonl"))
    return found


def last_epoch(rows: Rows) -> int:
    """Return the number of the last epoch."""
    return int(max(row["epoch"] for row in rows))


def over_epochs(arm: dict[int, Rows]) -> dict[str, list[dict[str, float] | None]]:
    """Return mean and deviation over seeds, of the mean of the learners, for every key and epoch."""
    epochs = range(last_epoch(next(iter(arm.values()))) + 1)
    result: dict[str, list[dict[str, float] | None]] = {}
    for key in KEYS:
        result[key] = []
        for epoch in epochs:
            of_seeds = [
                [row[key] for row in rows if row["epoch"] == epoch and row.get(key) is not None]
                for rows in arm.values()
            ]
            values = [fmean(own) for own in of_seeds if own]
            enough = len(values) > 1
            result[key].append(
                {"mean": fmean(values), "deviation": stdev(values), "n": len(values)} if enough else None
            )
    return {key: values for key, values in result.items() if any(values)}


def paired(one: dict[int, Rows], other: dict[int, Rows], key: str) -> list[dict[str, float]]:
    """Return, for every epoch, the mean paired difference of two arms with its 95 % interval."""
    seeds = sorted(set(one) & set(other))
    result = []
    for epoch in range(last_epoch(one[seeds[0]]) + 1):
        means = [
            [fmean(row[key] for row in arm[seed] if row["epoch"] == epoch) for seed in seeds] for arm in (one, other)
        ]
        differences = np.subtract(*means)
        low, high = stats.t.interval(0.95, len(seeds) - 1, differences.mean(), stats.sem(differences))
        result.append({"mean": float(differences.mean()), "low": float(low), "high": float(high), "n": len(seeds)})
    return result


def catch_up(arm: dict[int, Rows], independent: dict[int, Rows]) -> dict[str, float]:
    """Return the correlation of a peer's advantage with a pupil's gain, over classes, as a mean over seeds."""
    correlations = []
    for seed in sorted(set(arm) & set(independent)):
        end = last_epoch(arm[seed])
        taught = {row["learner"]: row for row in arm[seed] if row["epoch"] == end}
        alone = {row["learner"]: row for row in independent[seed] if row["epoch"] == end}
        advantage = [np.subtract(taught[1 - k]["v_recognised"], taught[k]["v_recognised"]) for k in taught]
        gain = [np.subtract(taught[k]["w_recognised"], alone[k]["w_recognised"]) for k in taught]
        correlations.append(float(stats.spearmanr(np.concatenate(advantage), np.concatenate(gain)).statistic))
    low, high = stats.t.interval(0.95, len(correlations) - 1, np.mean(correlations), stats.sem(correlations))
    return {"mean": fmean(correlations), "low": float(low), "high": float(high), "n": len(correlations)}


def main() -> None:
    """Read a store and write what learners learned."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("store", type=Path, help="the folder of the studies")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    given = parser.parse_args()
    found = read(Store(given.store))
    controls = {SELF_TAUGHT: found[SELF_TAUGHT], INDEPENDENT: found[INDEPENDENT]}
    summary = {
        "by epoch": {arm: over_epochs(rows) for arm, rows in found.items()},
        "W error, group minus control": {
            name: paired(found[GROUP], rows, "w_error") for name, rows in controls.items()
        },
        "catch-up": {arm: catch_up(found[arm], found[INDEPENDENT]) for arm in (GROUP, SELF_TAUGHT)},
    }
    given.out.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
