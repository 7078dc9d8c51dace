"""The jobs, for Python: what the command does, without the command."""

import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from smallgroup.config import Config, resolve
from smallgroup.data import data_root, open_search_data
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.result import SearchResult, conclude
from smallgroup.runner import Runner, Watcher
from smallgroup.runtime.environment import Environment
from smallgroup.runtime.files import write_whole
from smallgroup.spaces.nas_bench_201 import Truth


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
        resume: go on with the run in that folder.
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
    return SearchJob(config.search, data, learners, seed=config.seed)


def _search(config: Config, folder: Path, *, resume: bool, allow_drift: bool, watcher: Watcher | None) -> SearchResult:
    threads = torch.get_num_threads()
    torch.set_num_threads(config.run.threads)
    try:
        job = make_job(config)
        folder.mkdir(parents=True, exist_ok=True)
        runner = Runner(
            folder,
            identity=config.to_dict(),
            environment=Environment.current(),
            watcher=watcher,
            minutes=config.run.checkpoint_minutes,
            allow_drift=allow_drift,
        )
        if not resume or not (folder / "config.yaml").exists():
            runner.check_free()
            write_whole(folder / "config.yaml", config.to_yaml())
        seconds = runner.run(job, resume=resume)
        truth = Truth.find(data_root(config.data.data_root))
        return conclude(job, seed=config.seed, seconds=seconds, truth=truth, folder=folder)
    finally:
        torch.set_num_threads(threads)
