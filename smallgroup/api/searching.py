"""The search, and the play-off at its end."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from smallgroup.api.carrying import JobPlan, carried_out, shown_progress
from smallgroup.api.given import on_data, or_begun
from smallgroup.api.timed import TimeBudget
from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.data.given import takes_data
from smallgroup.data.own import LabeledImages, OwnData
from smallgroup.data.training_data import open_parts_of_search
from smallgroup.display.display import Display
from smallgroup.display.playoff import PlayOffDisplay
from smallgroup.display.search import SearchDisplay
from smallgroup.jobs import (
    LOWER_IN_SEARCH,
    make_job,
)
from smallgroup.phases.playoff.answer import answer_of, candidates_of
from smallgroup.phases.playoff.job import PlayOffJob
from smallgroup.phases.search.answer import Answer, Finalist
from smallgroup.phases.search.record import recorder as search_recorder
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.search.result import conclude as conclude_search
from smallgroup.ranks import RankTask, dealt
from smallgroup.runner import Runner, Watcher
from smallgroup.runtime import device, world
from smallgroup.runtime.budget import Clock
from smallgroup.runtime.files import check_not_link
from smallgroup.spaces import genotypes

PLAY_OFF = "play-off"
"""The folder of the play-off, inside that of the search."""


@takes_data
def search(
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    out: Path | str | None = None,
    seconds: float | None = None,
    clock: Clock = "wall",
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
    recorders: Sequence[Watcher] = (),
    progress: bool = True,
    files: Mapping[str, str] | None = None,
    data: OwnData | LabeledImages | None = None,
    measuring: Callable[[], None] | None = None,
) -> SearchResult:
    """Search for a cell, and return the result.

    Args:
        config: what to search: a config, a dictionary, which may have the short keys, or the path of a YAML file. None:
            that of the run to resume, else the embedded default.
        out: the run's folder; None: nothing but the result is kept.
        seconds: a time budget, measuring included; None: the size of the config. A resumed run keeps its size.
        clock: what the budget counts: wall-clock time, or the CPU time of this process.
        resume: continue the run in that folder; the result of a finished run is returned.
        allow_drift: resume even if the environment changed, so that results may differ.
        watcher: an object whose methods are called during the run, see `smallgroup.runner.Watcher`.
        recorders: more such objects, such as `smallgroup.runner.tensorboard.EventFiles`.
        progress: show progress on standard error or in the notebook, unless there is a `watcher`.
        files: what else is written into the folder when the run begins, by name.
        data: images of your own, in place of `data.dataset`: a `smallgroup.data.OwnData`, or its labeled images alone.
            To resume the run, give them again.
        measuring: called before steps are measured for a time budget.
    """
    given = on_data(or_begun(config, out, resume=resume), data)
    resolved = given if isinstance(given, Config) else resolve(given)
    if seconds is not None:
        resolved = TimeBudget(seconds, clock, out, resume, measuring).search(resolved)

    def begun(folder: Path) -> Mapping[str, Any]:
        return resolve(load_own(folder / CONFIG)).of_search()

    def carry_out(runner: Runner) -> SearchResult:
        task = RankTask("search", resolved.to_dict(), also)
        count = len(resolved.learners)
        job = dealt(task, runner.environment, count, lambda exchange: make_job(resolved, exchange=exchange))
        with shown_progress(SearchDisplay, watcher, progress=progress) as displays:
            told = (*displays, *recorders, search_recorder(job, runner.folder))
            seconds = replace(runner, recorders=told, world=world.current()).run(job, resume=resume)
        play = None
        if resolved.search.answer == "play-off":
            play = partial(
                _play_off, resolved, runner, job.course.steps, resume=resume, watcher=watcher, progress=progress
            )
        return conclude_search(job, seed=resolved.seed, seconds=seconds, folder=runner.folder, play_off=play)

    also = ("plain",) if resolved.search.hypergradient == "exact" else ()
    if resolved.run.precision == "bfloat16":
        also = ("bfloat16",)
    plan = JobPlan(resolved, resolved.of_search(), begun, SearchResult.read, carry_out, LOWER_IN_SEARCH, files or {})
    plan = replace(plan, says_what=config is not None or data is not None, also=also)
    return carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)


def _play_off(
    config: Config,
    runner: Runner,
    steps: int,
    finalists: Sequence[Finalist],
    *,
    resume: bool,
    watcher: Watcher | None,
    progress: bool,
) -> Answer:
    """Let the candidates of a search play off, in a folder of their own inside its folder."""
    folder = runner.folder / PLAY_OFF
    check_not_link(folder)
    data = open_parts_of_search(config.data, config.data.augmentation, seed=config.seed)
    candidates = candidates_of(finalists, config.playoff.candidates)
    where = device.current()
    job = PlayOffJob(config.playoff, data, candidates, seed=config.seed, search_steps=steps, device=where)
    cells = [genotypes.to_plain(one.genotype) for one in candidates]
    shown = PlayOffDisplay(terse=True) if watcher is None else PlayOffDisplay(title="play-off")
    quiet = not progress or (watcher is not None and not isinstance(watcher, Display))
    with nullcontext() if quiet else shown as display:
        own = replace(
            runner,
            folder=folder,
            identity={**runner.identity, "candidates": cells},
            watcher=watcher if quiet else display,
            recorders=(),
            files={},
        )
        seconds = own.run(job, resume=resume)
    return answer_of(job, seconds)
