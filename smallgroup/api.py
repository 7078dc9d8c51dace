"""The jobs, for Python: what the command does, without the command."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from smallgroup.config import Config, load, resolve
from smallgroup.data import data_root, open_search_data
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.result import SearchResult, conclude
from smallgroup.phases.search.timing import fitted, measure
from smallgroup.runner import Runner, Watcher, check_identity
from smallgroup.runtime.environment import Environment
from smallgroup.runtime.memory import memory_explained
from smallgroup.spaces.nas_bench_201 import Truth

CONFIG = "config.yaml"
LOWER = (
    "lower search.batch_size (train, unlabeled, validation), space.channels or space.cells, or take "
    "--hypergradient first-order"
)
"""What to do when memory runs out in a search."""


def search(
    config: Config | Mapping[str, Any] | None = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
) -> SearchResult:
    """Search, and give the result.

    Args:
        config: what to search; a dictionary may have the short keys. None: the embedded default.
        out: the run's folder; None: nothing is kept but the result.
        resume: go on with the run in that folder; a finished one gives its result.
        allow_drift: resume even where the same bits cannot be promised.
        watcher: who is told how it goes.
    """
    resolved = config if isinstance(config, Config) else resolve(config or {})
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as folder:
        return _search(resolved, Path(folder), resume=resume, allow_drift=allow_drift, watcher=watcher)


def make_job(config: Config) -> SearchJob:
    """The search that a config describes, at its beginning."""
    data = open_search_data(config.data, seed=config.seed)
    images = {"classes": len(data.dataset.classes), "image_channels": data.dataset.channels}
    learners = [
        ((one.space or config.space).build(image_size=data.dataset.size, **images), one.build_method())
        for one in config.learners
    ]
    truth = Truth.find(data_root(config.data.data_root))
    return SearchJob(config.search, data, learners, seed=config.seed, truth=truth)


def within(config: Config, seconds: float) -> Config:
    """The config with as many epochs as fit into a time; what depends on their number follows.

    A few steps are taken to find out how long they take.
    """
    with _threads(config.run.threads), memory_explained(LOWER):
        job = make_job(config)
        epochs, steps = fitted(job, measure(job), seconds)
    return resolve(config.to_dict(), [f"search.epochs={epochs}", f"search.steps_per_epoch={steps}"])


def _search(config: Config, folder: Path, *, resume: bool, allow_drift: bool, watcher: Watcher | None) -> SearchResult:
    place = folder / CONFIG
    if resume and place.exists():
        check_identity(config.to_dict(), resolve(load(place)).to_dict())
        if (finished := SearchResult.read(folder)) is not None:
            return finished
    with _threads(config.run.threads), memory_explained(LOWER):
        job = make_job(config)
        environment = Environment.current()
        runner = Runner(
            folder,
            identity=config.to_dict(),
            environment=environment,
            watcher=watcher,
            minutes=config.run.checkpoint_minutes,
            allow_drift=allow_drift,
            files={CONFIG: config.to_yaml(asdict(environment))},
        )
        seconds = runner.run(job, resume=resume)
        return conclude(job, seed=config.seed, seconds=seconds, folder=folder)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Torch on so many threads, and then as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
