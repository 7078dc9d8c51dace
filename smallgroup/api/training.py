"""The training of a cell, or of several networks as a group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smallgroup.api.carrying import JobPlan, carried_out, shown_progress
from smallgroup.api.given import as_group, is_run, on_data, or_begun, precision_of, resolved_for_training, within_limits
from smallgroup.api.timed import TimeBudget
from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.data.given import takes_data
from smallgroup.data.own import LabeledImages, OwnData
from smallgroup.display.training import TrainingDisplay
from smallgroup.exporters.latency import measure
from smallgroup.jobs import (
    LOWER_IN_TRAINING,
    make_training,
)
from smallgroup.phases.training import (
    GroupCells,
    GroupJob,
    TrainingJob,
    TrainResult,
    cells,
)
from smallgroup.phases.training.group_result import conclude as conclude_group
from smallgroup.phases.training.latency import FILE as LATENCIES
from smallgroup.phases.training.latency import Latencies, read_latencies
from smallgroup.phases.training.record import recorder as training_recorder
from smallgroup.phases.training.result import conclude as conclude_training
from smallgroup.ranks import RankTask, dealt
from smallgroup.runner import Runner, Watcher
from smallgroup.runtime import world
from smallgroup.runtime.budget import Clock
from smallgroup.spaces import genotypes
from smallgroup.spaces.genotype import Genotype


@takes_data
def train(
    genotype: Genotype | Path | str | Sequence[Genotype | Path | str],
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    learners: int | None = None,
    out: Path | str | None = None,
    seconds: float | None = None,
    clock: Clock = "wall",
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
    recorders: Sequence[Watcher] = (),
    progress: bool = True,
    latencies: Mapping[str, float] | None = None,
    data: OwnData | LabeledImages | None = None,
    measuring: Callable[[], None] | None = None,
) -> TrainResult:
    """Train a cell from scratch in a large network, test it once, and return the result.

    With `learners`, several cells or the section `training.group`, networks are trained as a group that teaches one
    another on unlabeled images, `data.unlabeled`; the one with the lowest validation loss is kept.

    Args:
        genotype: the cell; a published name, a file, the folder of a search, or its text. For a group also a list, one
            cell per network; the folder of a search with as many learners gives each network one of their cells.
        config: data, seed and `training`, as in `search`. Of a dictionary or a file, what is not given comes from the
            search, if the genotype is the folder of one, and from the recipe; a `Config` says everything by itself.
            With limits such as `training.max_parameters` the network is the largest around the cell that fits.
        learners: how many networks are trained as a group, in place of `training.group.learners`.
        out: the run's folder; None: nothing but the result is kept.
        seconds: a time budget, measuring included; None: the size of the config. A resumed run keeps its size.
        clock: what the budget counts: wall-clock time, or the CPU time of this process.
        resume: continue the run in that folder; the result of a finished run is returned.
        allow_drift: resume even if the environment changed, so that results may differ.
        watcher: an object whose methods are called during the run, see `smallgroup.runner.Watcher`.
        recorders: more such objects, such as `smallgroup.runner.tensorboard.EventFiles`.
        progress: show progress on standard error or in the notebook, unless there is a `watcher`.
        latencies: networks that are not measured again for `training.max_latency_ms`, as `latency.json` of a run names
            them.
        data: images of your own, as in `search`.
        measuring: called before steps are measured for a time budget.
    """
    given = on_data(or_begun(config, out, resume=resume), data)
    named = cells.listed(genotype)
    resolved = given if isinstance(given, Config) else resolved_for_training(named[0], given)
    resolved = as_group(resolved, learners or (len(named) if len(named) > 1 else None))
    own = resolved.training.group
    group = GroupCells.of(named, 1 if own is None else own.learners)
    saved_latencies = read_latencies(Path(out)) if resume and out is not None else {}
    measured = Latencies(measure, {**(latencies or {}), **saved_latencies})
    if seconds is not None:
        time = TimeBudget(seconds, clock, out, resume, measuring)
        resolved = time.training(resolved, group.genotypes[0], measured)
    for each in group.genotypes:
        resolved = within_limits(resolved, each, measured)
    cell = group.genotypes[0]

    def begun(folder: Path) -> Mapping[str, Any]:
        saved = resolve(load_own(folder / CONFIG))
        return {**saved.of_training(), **cells.begun(folder, alone=saved.training.group is None)}

    def carry_out(runner: Runner) -> TrainResult:
        job = make_training(resolved, group.genotypes) if own is not None else _sliced(resolved, cell, runner)
        with shown_progress(TrainingDisplay, watcher, progress=progress) as displays:
            runner.recorders = (*displays, *recorders, training_recorder(job, runner.folder))
            seconds = runner.run(job, resume=resume)
        if isinstance(job, GroupJob):
            return conclude_group(job, seconds=seconds, folder=runner.folder)
        return conclude_training(job, seconds=seconds, folder=runner.folder)

    files = {genotypes.FILE: genotypes.dumps(cell) + "\n"} if own is None else {cells.FILE: group.dumps()}
    if resolved.training.max_latency_ms is not None:
        files[LATENCIES] = measured.dumps()
    identity = {**resolved.of_training(), **cells.identity_of(group, alone=own is None)}
    plan = JobPlan(resolved, identity, begun, TrainResult.read, carry_out, LOWER_IN_TRAINING, files)
    says_what = config is not None or data is not None or is_run(named[0])
    ranks = world.current().ranks if own is None else 1
    plan = replace(plan, says_what=says_what, also=precision_of(resolved), ranks=ranks)
    return carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)


def _sliced(config: Config, cell: Genotype, runner: Runner) -> TrainingJob | GroupJob:
    """Make the training of one network, of whose batches every rank computes slices, and let all ranks run it."""
    plain = genotypes.to_plain(cell)
    task = RankTask("training", config.to_dict(), precision_of(config), space=cell.space, genotype=plain)
    job = dealt(task, runner.environment, None, lambda exchange: make_training(config, cell, exchange=exchange))
    runner.world = world.current()
    return job
