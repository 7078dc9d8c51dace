"""Measure where the cells stand that `quick` finds on NAS-Bench-201 within five CPU minutes.

`protocol.md` says what they are compared with. Each arm of each seed is a process of its own with one thread; outcomes
are kept one by one in `nas-bench-201.json` beside this file, and what is there is not measured again.

    python results/outcome/nas_bench_201.py --seeds 1001-1020      # carry out what is missing, then print the table
    python results/outcome/nas_bench_201.py --table                # print the table
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from smallgroup.api import search
from smallgroup.bench.outcome.arms import MOST_CELLS, SPACE
from smallgroup.bench.outcome.proxies import PROXIES
from smallgroup.config import Config, resolve
from smallgroup.data import data_root
from smallgroup.data.training_data import open_parts_of_search
from smallgroup.jobs import training_data_of
from smallgroup.phases.playoff.candidates import distinct
from smallgroup.phases.playoff.job import Candidate, PlayOffJob
from smallgroup.runner.machine import machine
from smallgroup.runtime import stream
from smallgroup.spaces.choices import known_genotype, random_genotype
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import from_plain, to_plain
from smallgroup.spaces.nas_bench_201.cell import Cell
from smallgroup.spaces.nas_bench_201.truth import Truth
from smallgroup.spaces.networks import build_network

FILE = Path(__file__).with_name("nas-bench-201.json")
SECONDS = 285.0
"""CPU seconds of an arm: five minutes, less what starting and ending takes."""
RUN, PAIR, RANDOM = "quick, play-off", "quick, independent pair, play-off", "random play-off"
ARMS = (RUN, PAIR, *(f"best random by {proxy}" for proxy in PROXIES), RANDOM)
COLUMN = "cifar10"


def config_of(seed: int, **keys: Any) -> Config:  # noqa: ANN401 -- keys of a config
    """Return the frozen recipe on CIFAR-10 with unlabeled images of CIFAR-100."""
    return resolve({"dataset": COLUMN, "unlabeled": "cifar100", "seed": seed, **keys})


def searched(seed: int, lam: float) -> list[tuple[str, Genotype]]:
    """Return the answer of a search with a play-off in what is left of the time, and the retained cell."""
    # A search takes 25 to 60 CPU seconds here; the play-off gets the rest of the time that this leaves.
    keys = {"search": {"answer": "play-off", "lambda": lam}, "playoff": {"seconds": SECONDS - 60.0}}
    with tempfile.TemporaryDirectory() as folder:
        result = search(config_of(seed, **keys), out=Path(folder) / "run", progress=False)
    cells = {"answer": result.genotype, "retained": result.group[result.retained].genotype}
    return [(rule, from_plain(SPACE, cell)) for rule, cell in cells.items()]


def by_proxy(seed: int, proxy: str, start: float) -> Genotype:
    """Return the best of as many random cells as the time pays for, by a number that needs no training."""
    config = config_of(seed)
    with machine(config.run):
        data = training_data_of(config)
        images, _ = data.train(config.training.batch_size, seed).batch(0)
        design = config.training.network.design(data.dataset.spec, SPACE)
        best, highest = random_genotype(SPACE, stream(seed, proxy, 0)), -math.inf
        for number in range(MOST_CELLS):
            if time.process_time() - start > SECONDS:
                break
            one = random_genotype(SPACE, stream(seed, proxy, number))
            score = PROXIES[proxy](build_network(one, design, generator=stream(seed, "proxy", number)), images)
            if score > highest:
                best, highest = one, score
    return best


def random_play_off(seed: int) -> Genotype:
    """Return the best of random candidates after the same play-off, with as many more of them as there is more time."""
    config = config_of(seed)
    most = round(config.playoff.candidates * SECONDS / (SECONDS - 60.0))
    cells = (Candidate(f"random {k}", random_genotype(SPACE, stream(seed, "play-off", k))) for k in range(20 * most))
    with machine(config.run):
        data = open_parts_of_search(config.data, config.data.augmentation, seed=seed)
        settings = config.playoff.model_copy(update={"seconds": SECONDS - 10.0})
        job = PlayOffJob(settings, data, distinct(cells, most), seed=seed)
        while not job.finished:
            job.advance()
    return job.candidates[job.winner].genotype


def carried_out(arm: str, seed: int) -> dict[str, Any]:
    """Return the cells of an arm, and what they took."""
    start = time.process_time()
    if arm in (RUN, PAIR):
        cells = searched(seed, 0.0 if arm == PAIR else config_of(seed).search.lam)
    elif arm == RANDOM:
        cells = [("answer", random_play_off(seed))]
    else:
        cells = [("answer", by_proxy(seed, arm.removeprefix("best random by "), start))]
    return {"cpu_seconds": time.process_time() - start, "cells": {rule: to_plain(cell) for rule, cell in cells}}


def kept() -> dict[str, dict[str, Any]]:
    """Return the outcomes that are there, by arm and seed."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def table() -> str:
    """Return mean percentiles over the seeds, and the paired difference of `quick` and each other arm, as Markdown."""
    truth = Truth.find(data_root(None))
    if truth is None:
        return "the table of NAS-Bench-201 is not under SMALLGROUP_DATA"
    lines = [
        "| choice | percentile | at cost | quick minus choice, at cost | CPU seconds | n |",
        "|---|---|---|---|---|---|",
    ]
    outcomes = kept()
    standings = {
        (arm, rule): {
            seed: truth.standing(Cell.parse(one["cells"][rule]), COLUMN)
            for seed, one in of_arm.items()
            if rule in one["cells"]
        }
        for arm, of_arm in outcomes.items()
        for rule in ("answer", "retained")
    }
    own = standings.get((RUN, "answer"), {})
    for (arm, rule), found in standings.items():
        if not found:
            continue
        at_cost = {seed: one.percentile_at_cost for seed, one in found.items() if one.percentile_at_cost is not None}
        pairs = [
            mine - at_cost[seed]
            for seed in at_cost
            if seed in own and (mine := own[seed].percentile_at_cost) is not None
        ]
        seconds = fmean(outcomes[arm][seed]["cpu_seconds"] for seed in found)
        name = arm if rule == "answer" else f"{arm.removesuffix(', play-off')}, {rule}"
        lines.append(
            f"| {name} | {_spread([one.percentile for one in found.values()])} | {_spread(list(at_cost.values()))}"
            f" | {'' if (arm, rule) == (RUN, 'answer') else _spread(pairs)} | {seconds:.0f} | {len(found)} |"
        )
    all_3x3 = truth.standing(Cell.parse(to_plain(known_genotype("all-3x3", SPACE))), COLUMN)
    lines.append(f"| all-3x3 | {all_3x3.percentile:.1f} | none of its cost | | 0 | |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "") if values else ""


def main() -> None:
    """Carry out what is missing, one process per arm and seed, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", default="1001-1020")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(carried_out(given.one[0], int(given.one[1]))))
        return
    low, high = (int(part) for part in given.seeds.split("-"))
    for seed in () if given.table else range(low, high + 1):
        for arm in ARMS:
            outcomes = kept()
            if str(seed) in outcomes.get(arm, {}):
                continue
            command = [sys.executable, __file__, "--one", arm, str(seed)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            outcomes.setdefault(arm, {})[str(seed)] = json.loads(done.stdout.splitlines()[-1])
            FILE.write_text(json.dumps(outcomes, indent=1) + "\n")
    print(table())


if __name__ == "__main__":
    main()
