"""The training of several networks by deep mutual learning."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smallgroup.api.carrying import JobPlan, carried_out, shown_progress
from smallgroup.api.given import cell_of, is_run, on_data, or_begun, precision_of, resolved_for_training
from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.data.given import takes_data
from smallgroup.data.own import LabeledImages, OwnData
from smallgroup.display.training import TrainingDisplay
from smallgroup.jobs import (
    LOWER_IN_TRAINING,
    make_mutual,
)
from smallgroup.phases.training import (
    MutualResult,
    Peers,
    peers,
)
from smallgroup.phases.training.mutual_result import check_places
from smallgroup.phases.training.mutual_result import conclude as conclude_mutual
from smallgroup.phases.training.record import recorder as training_recorder
from smallgroup.ranks import RankTask, dealt
from smallgroup.runner import Runner, Watcher
from smallgroup.runtime import world
from smallgroup.spaces.genotype import Genotype


@takes_data
def train_mutually(
    genotypes: Genotype | Path | str | Sequence[Genotype | Path | str],
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    weight: float = 1.0,
    learners: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
    progress: bool = True,
    data: OwnData | LabeledImages | None = None,
) -> MutualResult:
    """Train networks together by deep mutual learning, test each once, and return the result.

    The control is the same call with weight 0: same initial weights and batches, but no network learns from another.

    Args:
        genotypes: the cells, each as in `train`; learner k is the network of the k-th.
        config: data, seed and `training`, which all learners share; what is not given comes from the search, if the
            first genotype is the folder of one, and from the recipe for its space.
        weight: of the divergence from the peers, beside the loss on the labels.
        learners: number of networks, if they all have the same cell.
        out: the run's folder; None: nothing but the result is kept.
        resume: continue the run in that folder; the result of a finished run is returned.
        allow_drift: resume even if the environment changed, so that results may differ.
        watcher: an object whose methods are called during the run, see `smallgroup.runner.Watcher`.
        progress: show progress on standard error or in the notebook, unless there is a `watcher`.
        data: images of your own, as in `search`.
    """
    named = list(genotypes) if isinstance(genotypes, Sequence) and not isinstance(genotypes, str) else [genotypes]
    cells = tuple(cell_of(one) for one in named)
    group = Peers.of(cells, learners, weight)
    given = on_data(or_begun(config, out, resume=resume), data)
    resolved = given if isinstance(given, Config) else resolved_for_training(named[0], given)

    def begun(folder: Path) -> Mapping[str, Any]:
        return {**resolve(load_own(folder / CONFIG)).of_training(), **Peers.read(folder).to_dict()}

    def carry_out(runner: Runner) -> MutualResult:
        check_places(runner.folder, len(group.genotypes))
        task = RankTask("mutual", resolved.to_dict(), precision_of(resolved), group.dumps())
        count = len(group.genotypes)
        job = dealt(task, runner.environment, count, lambda exchange: make_mutual(resolved, group, exchange))
        with shown_progress(TrainingDisplay, watcher, progress=progress) as displays:
            told = (*displays, training_recorder(job, runner.folder))
            seconds = replace(runner, recorders=told, world=world.current()).run(job, resume=resume)
        return conclude_mutual(job, seconds=seconds, folder=runner.folder)

    identity = {**resolved.of_training(), **group.to_dict()}
    advice, files = f"{LOWER_IN_TRAINING}, or take fewer learners", {peers.FILE: group.dumps()}
    plan = JobPlan(resolved, identity, begun, MutualResult.read, carry_out, advice, files)
    plan = replace(
        plan, says_what=config is not None or data is not None or is_run(named[0]), also=precision_of(resolved)
    )
    return carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)
