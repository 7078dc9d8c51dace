"""The whole job: search, play-off, training from scratch, baselines beside it, and a verdict.

A time budget is for all of it. What each part may take is said before it begins, and written down: a run that is
interrupted goes on with the sizes it would have had.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from smallgroup import api
from smallgroup.baseline_names import BASELINES, DEFAULT_BASELINES, Baseline
from smallgroup.config import CONFIG, Config, load_own, long_form, resolve
from smallgroup.data.given import takes_data
from smallgroup.data.own import LabeledImages, OwnData
from smallgroup.phases.search.config import AnswerRule
from smallgroup.pipeline.parts import RunParts
from smallgroup.pipeline.plan import RunPlan
from smallgroup.pipeline.result import RunResult
from smallgroup.runner import Watcher, check_identity
from smallgroup.runtime.budget import Clock
from smallgroup.runtime.checks import check_choice


@takes_data
def run(
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    out: Path | str | None = None,
    seconds: float | None = None,
    clock: Clock = "wall",
    baselines: Sequence[Baseline] | None = None,
    controls: bool | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    progress: bool = True,
    terse: bool = True,
    say: Callable[[str], None] | None = None,
    recorders: Callable[[Path], Sequence[Watcher]] | None = None,
    before_training: Callable[[], None] | None = None,
    answer: AnswerRule | None = None,
    data: OwnData | LabeledImages | None = None,
) -> RunResult:
    """Search for a cell, train it from scratch, train baselines beside it, and compare them.

    Args:
        config: what to search and how to train, as in `search`. None: that of the run to resume.
        out: the run's folder; None: nothing but the result is kept.
        seconds: a time budget for everything; None: the lengths of the config.
        clock: what the budget counts: wall-clock time, or the CPU time of this process.
        baselines: networks beside the found one, see `BASELINES`; None: a ResNet and a random cell.
        controls: with `training.group`, train its controls too; see `smallgroup.controls`.
            None: those the run was started with, else none.
        resume: continue the run in that folder, with its own budget and baselines.
        allow_drift: resume even if the environment changed, so that results may differ.
        progress: show progress on standard error or in the notebook.
        terse: without a terminal, print one line per epoch and no introduction.
        say: called with a sentence on how the time budget is divided.
        recorders: given the folder of a part of the run, more watchers for it.
        before_training: called when the cell is known and its training is about to begin.
        answer: the rule that chooses the cell, in place of `search.answer`. None: that of the config; a run of the
            recipe quick without `search.answer` takes a play-off.
        data: images of your own, as in `search`.
    """
    for baseline in baselines or ():
        check_choice("baseline", baseline, tuple(BASELINES))
    asked = api.on_data(api.or_begun(config, out, resume=resume), data)
    given = {} if isinstance(asked, Config) else asked
    resolved = asked if isinstance(asked, Config) else resolve(given)
    if answer is None and says_answer(given):
        answer = resolved.search.answer
    if resume and out is not None and (Path(out) / CONFIG).exists():
        begun = resolve(load_own(Path(out) / CONFIG))
        check_identity(resolved.of_training(), begun.of_training())  # of the search, where it goes on
        rule = begun.search.answer
        if answer not in (None, rule):
            raise ValueError(f"a resumed run keeps its answer rule, {rule}, but got {answer}")
        answer = rule
    resolved = _answering(resolved, answer).penalized()
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as name:
        job = RunParts(Path(name), resolved, resume=resume, allow_drift=allow_drift, progress=progress, terse=terse)
        job.tell, job.recorders = say or job.tell, recorders or job.recorders
        job.before_training = before_training or job.before_training
        chosen = DEFAULT_BASELINES if baselines is None else tuple(baselines)
        plan = job.begun()
        if plan is not None and baselines is not None and chosen != plan.baselines:
            raise ValueError(f"a resumed run keeps its baselines, {_listed(plan.baselines)}, but got {_listed(chosen)}")
        if controls and resolved.training.group is None:
            raise ValueError("controls are those of networks trained as a group, but training.group is null")
        if plan is not None and controls is not None and controls != plan.controls:
            raise ValueError("a resumed run keeps its controls, but got others")
        return job.carry_out(plan, RunPlan(seconds, clock, chosen, controls=bool(controls)))


def says_answer(given: Mapping[str, Any]) -> bool:
    """Return whether keys, as a user gives them, set the rule by which the group answers."""
    return "answer" in (long_form(given).get("search") or {})


def _answering(config: Config, answer: AnswerRule | None) -> Config:
    """Return the config with the rule by which the group answers."""
    if answer is None:
        undecided = config.recipe == "quick" and config.search.answer == "retained"
        answer = "play-off" if undecided else config.search.answer
    return config.model_copy(update={"search": config.search.model_copy(update={"answer": answer})})


def _listed(baselines: Sequence[Baseline]) -> str:
    return ", ".join(baselines) or "none"
