"""Measure what peers are worth to the final network where few images have labels, as `protocol.md` says.

Each unit (labeled images, source of unlabeled images, arm, seed) is a process of its own with one thread. Outcomes are
kept one by one in `outcomes/` beside this file, and what is there is not measured again.

    python results/teaching-final/study.py --tune       # settings on seeds 101-102, by validation images alone
    python results/teaching-final/study.py              # carry out what is missing, then print the tables
    python results/teaching-final/study.py --table      # print the tables
    python results/teaching-final/study.py --try        # a few steps on seed 101, and the CPU hours of it all
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import scipy
import torch

import smallgroup
from smallgroup.config import Config, resolve
from smallgroup.controls import configs_of
from smallgroup.data import TensorImages, data_root
from smallgroup.data.own import OwnData
from smallgroup.data.sources import open_dataset
from smallgroup.data.splits import mixed, stratified
from smallgroup.runtime.files import write_whole
from smallgroup.spaces.choices import known_genotype

FOLDER = Path(__file__).parent / "outcomes"
LABELED = (250, 1000, 4000)
IN, OUT = "in-domain", "cifar100"
SEEDS, TUNING_SEEDS = tuple(range(1001, 1011)), (101, 102)
GROUP, SELF, ALONE, ONE = "group", "self-taught", "labels-alone", "one-network"
STEPS, EVERY = 1200, 100
"""Steps of a group of two, and of an epoch: between two looks at the validation images."""
CHOSEN = Path(__file__).with_name("chosen.json")
SETTINGS: dict[str, dict[str, float]] = {
    "defaults": {},
    "lambda 0.3": {"lambda": 0.3},
    "confidence 0.7": {"confidence": 0.7},
    "temperature 0.5": {"temperature": 0.5},
    "confidence 0.7, temperature 0.5": {"confidence": 0.7, "temperature": 0.5},
    "lambda 0.3, temperature 0.5": {"lambda": 0.3, "temperature": 0.5},
}
"""What tuning tries, with 1,000 labeled images."""


@dataclass(frozen=True)
class Unit:
    """One training; arms that see no unlabeled images have the source "none"."""

    labeled: int
    source: str
    arm: str
    seed: int
    setting: str = ""
    """Of the tuning; empty in the study itself."""
    steps: int = STEPS

    @property
    def path(self) -> Path:
        """Where its outcome is kept."""
        parts = ["tuning", self.setting.replace(", ", "-").replace(" ", "-")] if self.setting else ["study"]
        return FOLDER.joinpath(*parts, f"{self.labeled}-{self.source}-{self.arm}-{self.seed}.json")


def units() -> Iterator[Unit]:
    """Seed by seed, so that a study that is stopped has whole pairs."""
    for seed in SEEDS:
        for labeled in LABELED:
            for arm in (ALONE, ONE):
                yield Unit(labeled, "none", arm, seed)
            for source in (IN, OUT):
                for arm in (GROUP, SELF):
                    yield Unit(labeled, source, arm, seed)


def tuning_units() -> Iterator[Unit]:
    """The group alone, with images of its own domain and of another."""
    for seed in TUNING_SEEDS:
        for setting in SETTINGS:
            for source in (IN, OUT):
                yield Unit(1000, source, GROUP, seed, setting)


def images_of(unit: Unit) -> OwnData:
    """Draw the labeled images, class by class; in tuning the images that are tested on are training images as well."""
    root = data_root(None)
    whole = open_dataset("cifar10", root)
    train, test = whole.train, whole.test
    assert isinstance(train, TensorImages)
    assert isinstance(test, TensorImages)
    labels = whole.labels()
    shares = (unit.labeled / len(labels), 2000 / len(labels) if unit.setting else 0.0)
    chosen, measured = stratified(labels, whole.classes, shares, unit.seed, "labeled images")
    rest = torch.ones(len(labels), dtype=torch.bool)
    rest[chosen] = rest[measured] = False
    pixels = train.pixels[rest]
    if unit.source == OUT:
        other = open_dataset("cifar100", root).train
        assert isinstance(other, TensorImages)
        # As many as of the own domain.
        pixels = other.pixels[mixed(torch.arange(len(other)))[: len(pixels)]]
    tested = (train.pixels[measured], labels[measured]) if unit.setting else (test.pixels, test.labels)
    return OwnData(
        (train.pixels[chosen], labels[chosen]), test=tested, unlabeled=pixels, classes=whole.classes, name="cifar10"
    )


def config_of(unit: Unit) -> Config:
    """Return the training of a unit: those of the controls follow from the group's."""
    chosen = json.loads(CHOSEN.read_text())["setting"] if CHOSEN.exists() else "defaults"
    group = {"learners": 2, **SETTINGS[unit.setting or chosen]}
    every = min(EVERY, unit.steps)
    config = resolve(
        {
            "space": "nas-bench-201",
            "recipe": "quick",
            "seed": unit.seed,
            "training": {
                "epochs": unit.steps // every,
                "steps_per_epoch": every,
                "batch_size": 32,
                "validation": 0.1,
                "least_steps": None,
                "network": {"channels": 12, "cells_per_stage": 1},
                "augmentation": {"crop_padding": 4, "flip": True},
                "group": group,
            },
            "run": {"threads": 1},
        }
    )
    return config if unit.arm == GROUP else configs_of(config)[unit.arm]


def carried_out(unit: Unit) -> dict[str, Any]:
    """Train, and return the errors."""
    start, config = time.process_time(), config_of(unit)
    own = config.training.group
    assert own is not None
    result = smallgroup.train(
        known_genotype("resnet", "nas-bench-201"), config, data=images_of(unit), learners=own.learners, progress=False
    )
    networks = result.group or []
    return {
        **asdict(unit),
        "test_error": result.test_error,
        "mean_test_error": fmean(one["test_error"] for one in networks),
        "validation_loss": networks[result.retained or 0]["validation_loss"],
        "passes": result.steps * own.passes(config.training.batch_size),
        "parameters": result.parameters,
        "cpu_seconds": time.process_time() - start,
    }


def measure(unit: Unit) -> None:
    """Carry out a unit in a process of its own, unless its outcome is there."""
    if unit.path.exists():
        return
    command = [sys.executable, __file__, "--one", json.dumps(asdict(unit))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(unit.path, json.dumps(json.loads(done.stdout.splitlines()[-1]), indent=1) + "\n")


def found(unit: Unit, name: str = "test_error") -> float | None:
    """Return a number of an outcome; None if it is not there."""
    return float(json.loads(unit.path.read_text())[name]) if unit.path.exists() else None


def compared(own: list[Unit], other: list[Unit], name: str) -> str:
    """Return the mean paired difference with a 95 % interval of Student's t."""
    pairs = [(found(a, name), found(b, name)) for a, b in zip(own, other, strict=True)]
    gaps = [a - b for a, b in pairs if a is not None and b is not None]
    if len(gaps) < 2:
        return f"n = {len(gaps)}"
    reach = float(scipy.stats.t.ppf(0.975, len(gaps) - 1)) * stdev(gaps) / math.sqrt(len(gaps))
    middle = fmean(gaps)
    return f"{middle:+.2f} ({middle - reach:+.2f} to {middle + reach:+.2f})"


def table(name: str) -> str:
    """Return errors of all arms, and the group minus each control, paired by seed, as Markdown."""
    lines = [
        "| labeled | unlabeled | arm | error % | group minus arm, 95 % | passes | CPU s | n |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for labeled in LABELED:
        for source in (IN, OUT):
            group = [Unit(labeled, source, GROUP, seed) for seed in SEEDS]
            for arm in (GROUP, SELF, ALONE, ONE):
                own = [Unit(labeled, source if arm in (GROUP, SELF) else "none", arm, seed) for seed in SEEDS]
                there = [unit for unit in own if unit.path.exists()]
                if not there:
                    continue
                errors = [found(unit, name) or 0.0 for unit in there]
                spread = f" ± {stdev(errors):.2f}" if len(errors) > 1 else ""
                passes, seconds = (
                    fmean(found(unit, key) or 0.0 for unit in there) for key in ("passes", "cpu_seconds")
                )
                gap = "" if arm == GROUP else compared(group, own, name)
                lines.append(
                    f"| {labeled:,} | {source} | {arm} | {fmean(errors):.2f}{spread} | {gap} | {passes:,.0f}"
                    f" | {seconds:.0f} | {len(there)} |"
                )
    return "\n".join(lines)


def choose() -> None:
    """Keep the setting with the lowest mean error on training images set aside, and print all of them."""
    means = {}
    for setting in SETTINGS:
        errors = [found(unit, "mean_test_error") for unit in tuning_units() if unit.setting == setting]
        known = [error for error in errors if error is not None]
        means[setting] = fmean(known)
        print(f"{setting}: {means[setting]:.2f} ({', '.join(f'{error:.2f}' for error in known)})")
    best = min(means, key=lambda setting: means[setting])
    write_whole(CHOSEN, json.dumps({"setting": best, "mean_error": means}, indent=1) + "\n")


def tried() -> None:
    """Run a few steps of every arm on a tuning seed, twice as many too, and say what the whole study takes."""
    hours = 0.0
    carried_out(Unit(250, "none", ALONE, 101, "defaults", steps=5))  # what is loaded and compiled at first
    for arm, source, count in ((ALONE, "none", 1), (ONE, "none", 1), (GROUP, IN, 2), (SELF, OUT, 2)):
        few, more = (carried_out(Unit(250, source, arm, 101, "defaults", steps=steps)) for steps in (20, 100))
        each = (more["cpu_seconds"] - few["cpu_seconds"]) / 80
        fixed = max(0.0, few["cpu_seconds"] - 20 * each)
        seconds = fixed + STEPS * each
        own = count * len(LABELED) * len(SEEDS)
        hours += own * seconds / 3600
        if arm == GROUP:
            hours += len(list(tuning_units())) * seconds / 3600
        print(f"{arm}: {each:.3f} CPU s per step of the group, {seconds:.0f} CPU s per unit, {own} units; {few}")
    print(f"all of it, tuning included: about {hours:.1f} CPU hours")


def main() -> None:
    """Carry out what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--workers", type=int, default=1)
    for name in ("--tune", "--table", "--try"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.one:
        print(json.dumps(carried_out(Unit(**json.loads(given.one)))))
        return
    if vars(given)["try"]:
        tried()
        return
    if not given.table:
        with ThreadPoolExecutor(given.workers) as pool:
            list(pool.map(measure, tuning_units() if given.tune else units()))
    if given.tune:
        choose()
        return
    for name, words in (("test_error", "the network that is kept"), ("mean_test_error", "mean of the networks")):
        print(f"\nTest error, {words}\n\n{table(name)}")


if __name__ == "__main__":
    main()
