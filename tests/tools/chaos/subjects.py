"""What is killed: small searches of every kind, trainings that read images by worker processes, and a study."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from smallgroup import api
from smallgroup.config import resolve
from smallgroup.jobs import make_job
from smallgroup.ranks import on_ranks
from smallgroup.runner import Watcher
from smallgroup.runtime import stream
from smallgroup.study import Store, carry_out_all, planned
from smallgroup.study.file import parsed
from smallgroup.study.work import work
from tests.tools.chaos.compare import newest
from tests.tools.launched import own_network

CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|skip_connect~0|none~1|nor_conv_3x3~2|"
SMALL: dict[str, Any] = {
    "data": {"labeled_fraction": 0.1, "data_root": "nowhere"},  # digits need no file, and no table is read
    "space": {"name": "nas-bench-201", "channels": 2},
    "search": {
        "epochs": 2,
        "steps_per_epoch": 5,
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 8},
        "v_warmup": 0.2,
        "architecture_warmup": 0.4,
    },
    "run": {"threads": 1, "checkpoint_minutes": 0},  # a checkpoint after every step
}
_DARTS = {"space": {"name": "darts", "channels": 2, "cells": 3}, "hypergradient": "first-order"}
SEARCHES: dict[str, dict[str, Any]] = {
    "group of two": {"method": "darts", "learners": 2, "hypergradient": "first-order"},
    "through both stages": {"method": "darts", "learners": 2, "hypergradient": "finite-difference"},
    "alone": {"method": "gdas", "learners": 1, "hypergradient": "first-order"},
    "learners that differ": {
        "learners": [{"method": "fair-darts"}, {"method": "gdas"}],
        "hypergradient": "first-order",
    },
    "darts-minus": {"method": "darts-minus", "learners": 2, "hypergradient": "finite-difference"},
    "pc-darts": {"method": "pc-darts", "learners": 1, **_DARTS, "methods": {"pc-darts": {"part": 2}}},
    "stages": {
        "method": "p-darts",
        "learners": 2,
        "lambda": 0.5,
        **_DARTS,
        "methods": {"p-darts": {"added": [1, 2], "dropout": [0.2, 0.4, 0.6]}},
        "search": {**SMALL["search"], "epochs": 3, "steps_per_epoch": 3},
    },
    "going back": {
        "method": "r-darts",
        "learners": 2,
        "hypergradient": "first-order",
        "methods": {
            "r-darts": {
                "stopping": "adaptive",
                "every": 1,
                "first": 0,
                "window": 1,
                "back": 1,
                "factor": 1e-9,
                "products": 1,
                "drop_path": 0.2,
            }
        },
        "search": {**SMALL["search"], "epochs": 3, "steps_per_epoch": 2, "v_warmup": 0.0, "architecture_warmup": 0.0},
    },
}
"""Searches alone and in groups: stages change the networks twice, and going back repeats epochs."""
ON_RANKS: dict[str, dict[str, Any]] = {
    "group of two": SEARCHES["group of two"],
    "learners that differ": SEARCHES["learners that differ"],
    "group of three": {"method": "darts", "learners": 3, "hypergradient": "first-order"},
}
TRAINING: dict[str, Any] = {
    "data": {"size": 8, "workers": 2, "data_root": "nowhere"},
    "training": {
        "epochs": 2,
        "steps_per_epoch": 5,
        "batch_size": 6,
        "network": {"channels": 2, "cells_per_stage": 1, "auxiliary": "none"},
    },
    "run": SMALL["run"],
}
STUDY: dict[str, Any] = {
    "title": "a study that is killed",
    "base": SMALL,
    "over": {"training": {**TRAINING["training"], "steps_per_epoch": 4}},
    "rows": [{"name": "alone", "config": {"learners": 1}}, {"name": "group"}],
    "seeds": [1],
    "phases": ["search", "train"],
    "columns": ["test_error"],
    "primary": "test_error",
}


@dataclass(frozen=True)
class Subject:
    """Work in a folder that can be taken up again; `run` begins it or goes on with it, to its end, and tells how."""

    name: str
    run: Callable[[Path, Watcher], object]
    uninterrupted: Callable[[Path, Watcher], object] | None = None
    """A quicker way to the same result, for the uninterrupted run."""
    breaks: bool = False
    """Whether it may end by an error however it is killed: others have lost one of them."""


def search_of(name: str, config: Mapping[str, Any]) -> Subject:
    """A search."""

    def run(folder: Path, watcher: Watcher) -> object:
        return api.search(resolve(config), out=folder, resume=True, watcher=watcher)

    return Subject(name, run)


def ranks_of(name: str, config: Mapping[str, Any], ranks: int = 2) -> Subject:
    """A search whose learners are dealt to ranks, launched by the agent of torchrun; in peace, by one process.

    It goes on with `ranks` or one more: which of them depends on the newest checkpoint.
    """
    alone = search_of(name, config)

    def run(folder: Path, watcher: Watcher) -> object:
        own_network()
        now = ranks + sum(newest(folder).values()) % 2
        launch = LaunchConfig(1, 1, now, start_method="fork", monitor_interval=0.05, local_addr="127.0.0.1")
        launch.run_id, launch.rdzv_backend, launch.rdzv_endpoint = "chaos", "c10d", "127.0.0.1:29500"
        launch.max_restarts = 0
        return elastic_launch(launch, _rank)(alone, folder, watcher)

    return Subject(f"{name} on {ranks} or {ranks + 1} ranks", run, alone.run, breaks=True)


def _rank(alone: Subject, folder: Path, watcher: Watcher) -> None:
    """What each rank does."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    # A copy of the agent has its handlers, which torchrun's ranks have not, and which a wait outside of Python defers.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    on_ranks(lambda: alone.run(folder, watcher), {})


def training_of(images: Path, seed: int = 0, steps: int = 15) -> Subject:
    """A training on image files, which two processes decode; of so many steps per epoch."""
    data = {**TRAINING["data"], "dataset": f"folder:{images}"}
    training = {**TRAINING["training"], "steps_per_epoch": steps}

    def run(folder: Path, watcher: Watcher) -> object:
        config = {**TRAINING, "data": data, "training": training, "seed": seed}
        return api.train(CELL, config, out=folder, resume=True, watcher=watcher)

    return Subject("training with workers", run)


def study_of(seed: int = 1, rows: int = 2) -> Subject:
    """Searches and the trainings of what they find, by a worker process."""
    plan = planned("study", parsed({**STUDY, "rows": STUDY["rows"][:rows], "seeds": [seed]}))

    def run(folder: Path, watcher: Watcher) -> object:  # noqa: ARG001 -- workers tell their logs
        store = Store(folder)
        carry_out_all(plan, store, 1)
        failures = [why for one in plan.runs if (why := store.failure(one)) is not None]
        if failures:
            raise RuntimeError(failures[0])
        return None

    return Subject("study", run, lambda folder, _: work(plan.runs, Store(folder)))


@cache
def warm_up() -> None:
    """Import what is imported when it is first needed: here, and not again in every copy of this process."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    make_job(resolve(SMALL)).close()


def draw_images(folder: Path, per_class: int = 12) -> Path:
    """Small files in the folders of two classes."""
    for name in ("left", "right"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            pixels = torch.randint(256, (9, 9, 3), dtype=torch.uint8, generator=stream("chaos", name, number))
            Image.fromarray(pixels.numpy()).save(folder / name / f"{number}.png")
    return folder


def subjects(kind: str, images: Path, turn: int) -> Subject:
    """The subject of a kind (search, training, study, ranks) whose turn it is; it may draw into the folder `images`."""
    if kind == "training":
        return training_of(images if images.exists() else draw_images(images), turn)
    if kind == "study":
        return study_of(turn + 1)
    if kind == "ranks":
        name = list(ON_RANKS)[turn % len(ON_RANKS)]
        return ranks_of(name, {**SMALL, **ON_RANKS[name], "seed": turn}, 2 + turn % 2)
    name = list(SEARCHES)[turn % len(SEARCHES)]
    return search_of(name, {**SMALL, **SEARCHES[name], "seed": turn})
