"""The standalone form."""

import argparse
import sys
import tempfile
from pathlib import Path

import torch

from smallgroup.runtime import stream
from tests.tools import chaos
from tests.tools.chaos.attack import FROM_OUTSIDE, HOW
from tests.tools.chaos.torment import Report

KINDS = {"search": 4, "training": 3, "study": 1, "ranks": 1}
"""What is killed, and how often in comparison: a study takes long to start."""
MOST = 10
"""Kills of one run: then another one has its turn."""


def main() -> int:
    """Kill until there are as many kills of every kind as were asked for, and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.chaos", description=chaos.__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how many kills at least (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the ways of the kills")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what is killed")
    given = parser.parse_args()
    torch.set_num_threads(1)
    shares = {kind: KINDS[kind] / sum(KINDS[each] for each in given.kinds) for kind in given.kinds}
    totals = {kind: Report() for kind in given.kinds}
    for kind, total in totals.items():
        wanted = max(1, round(given.kills * shares[kind]))
        while total.kills < wanted:
            _add(total, kind, given.seed, min(MOST, wanted - total.kills))
    whole = Report()
    for kind, total in totals.items():
        whole.add(total)
        print(f"{kind}: {total.kills} kills, {total.runs} runs, {len(total.mismatches)} mismatches")
    print(f"ways: {dict(whole.ways.most_common())}\nmoments: {dict(whole.moments.most_common())}")
    print(
        f"{whole.kills} kills in {whole.runs} runs, {whole.resumptions} resumptions heard, "
        f"{len(whole.mismatches)} mismatches"
    )
    return 1 if whole.mismatches else 0


def _add(total: Report, kind: str, seed: int, kills: int) -> None:
    """Torment one more run of a kind."""
    ways = chaos.attacks(stream(seed, "chaos", kind, total.runs), FROM_OUTSIDE if kind in ("study", "ranks") else HOW)
    with tempfile.TemporaryDirectory() as name:
        subject = chaos.subjects(kind, Path(name) / "images", total.runs)
        report = chaos.torment(subject, Path(name), (next(ways) for _ in range(kills)))
    total.add(report)
    print(f"{kind}: {subject.name}: {report.kills} kills, {len(report.mismatches)} mismatches", flush=True)
    for mismatch in report.mismatches:
        print(f"  {mismatch}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
