"""The jobs, for Python: what the command does, without the command."""

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from smallgroup.config import CONFIG, Config, keys_for_training, keys_of_any, load_own, overlaid, resolve
from smallgroup.data import data_root
from smallgroup.data.config import DataConfig
from smallgroup.data.given import takes_data
from smallgroup.data.names import source_of
from smallgroup.data.own import LabeledImages, OwnData
from smallgroup.data.training_data import open_parts_of_search
from smallgroup.display.display import Display
from smallgroup.display.playoff import PlayOffDisplay
from smallgroup.display.search import SearchDisplay
from smallgroup.display.training import TrainingDisplay
from smallgroup.jobs import (
    LOWER_IN_SEARCH,
    LOWER_IN_TRAINING,
    make_job,
    make_mutual,
    make_training,
    training_data_of,
)
from smallgroup.pages import REPORT, draw_all
from smallgroup.phases.playoff.answer import answer_of, candidates_of
from smallgroup.phases.playoff.job import PlayOffJob
from smallgroup.phases.search.answer import Answer, Finalist
from smallgroup.phases.search.record import recorder as search_recorder
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.search.result import conclude as conclude_search
from smallgroup.phases.training import (
    GroupCells,
    GroupJob,
    MutualResult,
    Peers,
    TrainResult,
    cells,
    peers,
    size,
)
from smallgroup.phases.training.group_result import conclude as conclude_group
from smallgroup.phases.training.mutual_result import check_places
from smallgroup.phases.training.mutual_result import conclude as conclude_mutual
from smallgroup.phases.training.record import recorder as training_recorder
from smallgroup.phases.training.result import conclude as conclude_training
from smallgroup.places import check_for_run, check_part, holds_run, is_begun, nothing_to_resume
from smallgroup.ranks import RankTask, dealt, environment_on, skips_of
from smallgroup.report import notebook  # noqa: F401 -- registers what results show in notebooks
from smallgroup.runner import Runner, Watcher, check_folder, check_identity, read_current_rows
from smallgroup.runner.machine import machine
from smallgroup.runner.place import METRICS
from smallgroup.runtime import device, world
from smallgroup.runtime.files import check_not_link, remove_unfinished
from smallgroup.runtime.memory import memory_explained
from smallgroup.runtime.text import shown
from smallgroup.spaces import genotypes
from smallgroup.spaces.genotype import Genotype

LEAST_SECONDS = 2.0
"""Between two checkpoints at the ends of epochs: those of small datasets take less than bringing a file to the disk."""
PLAY_OFF = "play-off"
"""The folder of the play-off, inside that of the search."""
Result = TypeVar("Result", SearchResult, TrainResult, MutualResult)


@takes_data
def search(
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
    recorders: Sequence[Watcher] = (),
    progress: bool = True,
    files: Mapping[str, str] | None = None,
    data: OwnData | LabeledImages | None = None,
) -> SearchResult:
    """Search, and give the result.

    Args:
        config: what to search: a config, a dictionary, which may have the short keys, or the path of a YAML file. None:
            the embedded default.
        out: the run's folder; None: nothing is kept but the result.
        resume: go on with the run in that folder; a finished one gives its result.
        allow_drift: resume even where the same bits cannot be promised.
        watcher: who is told how it goes.
        recorders: who else is, such as `smallgroup.runner.tensorboard.EventFiles`.
        progress: show progress on standard error or in the notebook, unless there is a `watcher`.
        files: what else is written into the folder when the run begins, by name.
        data: images of your own, in place of `data.dataset`: a `smallgroup.data.OwnData`, or its labeled images alone.
            To resume the run, give them again.
    """
    given = on_data(config, data)
    resolved = given if isinstance(given, Config) else resolve(given)

    def begun(folder: Path) -> Mapping[str, Any]:
        return resolve(load_own(folder / CONFIG)).of_search()

    def carry_out(runner: Runner) -> SearchResult:
        task = RankTask("search", resolved.to_dict(), also)
        count = len(resolved.learners)
        job = dealt(task, runner.environment, count, lambda exchange: make_job(resolved, exchange=exchange))
        with _displays(SearchDisplay, watcher, progress=progress) as displays:
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
    plan = _Plan(resolved, resolved.of_search(), begun, SearchResult.read, carry_out, LOWER_IN_SEARCH, files or {})
    plan = replace(plan, says_what=config is not None or data is not None, also=also)
    return _carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)


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


@takes_data
def train(
    genotype: Genotype | Path | str | Sequence[Genotype | Path | str],
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    learners: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
    recorders: Sequence[Watcher] = (),
    progress: bool = True,
    data: OwnData | LabeledImages | None = None,
) -> TrainResult:
    """Train a cell from scratch in a large network, test it once, and give the result.

    With `learners`, several cells or the section `training.group`, networks are trained as a group that teaches one
    another on unlabeled images, `data.unlabeled`; the one with the lowest validation loss is kept.

    Args:
        genotype: the cell; a published name, a file, the folder of a search, or its text. For a group also a list, one
            cell per network; of a search with as many learners, its folder stands for the cells of all of them.
        config: data, seed and `training`, as in `search`. Of a dictionary or a file, what is not given comes from the
            search, if the genotype is the folder of one, and from the recipe; a `Config` says everything by itself.
            With limits such as `training.max_parameters` the network is the largest around the cell that fits.
        learners: how many networks are trained as a group, in place of `training.group.learners`.
        out: the run's folder; None: nothing is kept but the result.
        resume: go on with the run in that folder; a finished one gives its result.
        allow_drift: resume even where the same bits cannot be promised.
        watcher: who is told how it goes.
        recorders: who else is, such as `smallgroup.runner.tensorboard.EventFiles`.
        progress: show progress on standard error or in the notebook, unless there is a `watcher`.
        data: images of your own, as in `search`.
    """
    given = on_data(config, data)
    named = cells.listed(genotype)
    resolved = given if isinstance(given, Config) else _resolved_for_training(named[0], given)
    resolved = as_group(resolved, learners or (len(named) if len(named) > 1 else None))
    own = resolved.training.group
    group = GroupCells.of(named, 1 if own is None else own.learners)
    for cell in group.genotypes:
        resolved = within_limits(resolved, cell)

    def begun(folder: Path) -> Mapping[str, Any]:
        saved = resolve(load_own(folder / CONFIG))
        return {**saved.of_training(), **cells.begun(folder, alone=saved.training.group is None)}

    def carry_out(runner: Runner) -> TrainResult:
        job = make_training(resolved, group.genotypes)
        with _displays(TrainingDisplay, watcher, progress=progress) as displays:
            runner.recorders = (*displays, *recorders, training_recorder(job, runner.folder))
            seconds = runner.run(job, resume=resume)
        if isinstance(job, GroupJob):
            return conclude_group(job, seconds=seconds, folder=runner.folder)
        return conclude_training(job, seconds=seconds, folder=runner.folder)

    cell = group.genotypes[0]
    files = {genotypes.FILE: genotypes.dumps(cell) + "\n"} if own is None else {cells.FILE: group.dumps()}
    identity = {**resolved.of_training(), **cells.identity_of(group, alone=own is None)}
    plan = _Plan(resolved, identity, begun, TrainResult.read, carry_out, LOWER_IN_TRAINING, files)
    says_what = config is not None or data is not None or _is_run(named[0])
    plan = replace(plan, says_what=says_what, also=_precision(resolved))
    return _carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)


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
    """Train networks together by deep mutual learning, test each once, and give the result.

    Its control is the same call with weight 0: the same initial weights and batches, and everyone alone.

    Args:
        genotypes: the cells, each as in `train`; learner k is the network of the k-th.
        config: data, seed and `training`, which all learners share; what is not given comes from the search, if the
            first genotype is the folder of one, and from the recipe for its space.
        weight: of the divergence from the peers, beside the loss on the labels.
        learners: how many, if they are all of one cell.
        out: the run's folder; None: nothing is kept but the result.
        resume: go on with the run in that folder; a finished one gives its result.
        allow_drift: resume even where the same bits cannot be promised.
        watcher: who is told how it goes.
        progress: show progress on standard error or in the notebook, unless there is a `watcher`.
        data: images of your own, as in `search`.
    """
    named = list(genotypes) if isinstance(genotypes, Sequence) and not isinstance(genotypes, str) else [genotypes]
    cells = tuple(_cell(one) for one in named)
    group = Peers.of(cells, learners, weight)
    given = on_data(config, data)
    resolved = given if isinstance(given, Config) else _resolved_for_training(named[0], given)

    def begun(folder: Path) -> Mapping[str, Any]:
        return {**resolve(load_own(folder / CONFIG)).of_training(), **Peers.read(folder).to_dict()}

    def carry_out(runner: Runner) -> MutualResult:
        check_places(runner.folder, len(group.genotypes))
        task = RankTask("mutual", resolved.to_dict(), _precision(resolved), group.dumps())
        count = len(group.genotypes)
        job = dealt(task, runner.environment, count, lambda exchange: make_mutual(resolved, group, exchange))
        with _displays(TrainingDisplay, watcher, progress=progress) as displays:
            told = (*displays, training_recorder(job, runner.folder))
            seconds = replace(runner, recorders=told, world=world.current()).run(job, resume=resume)
        return conclude_mutual(job, seconds=seconds, folder=runner.folder)

    identity = {**resolved.of_training(), **group.to_dict()}
    advice, files = f"{LOWER_IN_TRAINING}, or take fewer learners", {peers.FILE: group.dumps()}
    plan = _Plan(resolved, identity, begun, MutualResult.read, carry_out, advice, files)
    plan = replace(
        plan, says_what=config is not None or data is not None or _is_run(named[0]), also=_precision(resolved)
    )
    return _carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)


def on_data(config: Config | Mapping[str, Any] | Path | str | None, data: object = None) -> Config | Mapping[str, Any]:
    """Return a config, or keys of one, with the data of a Python program in place of the dataset that it names."""
    if not isinstance(data, OwnData):
        return config if isinstance(config, Config) else keys_of_any(config)
    own = {"dataset": data.reference, "unlabeled": data.unlabeled_reference}
    own = {key: value for key, value in own.items() if value is not None}
    if isinstance(config, Config):
        # What is not the recipe's stays; the recipe itself has other things to say about other data.
        plain = config.to_dict()
        keys = overlaid({key: plain[key] for key in ("recipe", "learners")}, config.departures())
        keys = overlaid({"space": {"name": config.space.name}}, keys)
        named = {} if config.data.dataset == DataConfig().dataset else {"dataset": config.data.dataset}
    else:
        keys = overlaid({}, keys_of_any(config))
        named = {}
    named = {**named, **keys.get("data", {})}
    for key, value in own.items():
        if named.get(key, value) != value:
            raise ValueError(f"data must be given once, but there is data=... and {key} is {str(named[key])[:60]!r}")
    result = overlaid(keys, {"data": own})
    return resolve(result) if isinstance(config, Config) else result


def _is_run(genotype: Genotype | Path | str) -> bool:
    """Whether a cell is named by the folder of its search, which says what data it is for."""
    return isinstance(genotype, str | Path) and holds_run(Path(genotype))


def _precision(config: Config) -> tuple[str, ...]:
    """The mixed precision of a training, if it has one."""
    return () if config.training.precision == "float32" else (config.training.precision,)


def _cell(genotype: Genotype | Path | str) -> Genotype:
    return genotypes.resolve(str(genotype))[1] if isinstance(genotype, str | Path) else genotype


def as_group(config: Config, learners: int | None) -> Config:
    """The config of a training by so many learners; None: as it is."""
    own = config.training.group
    if learners is None or (own is not None and own.learners == learners):
        return config
    return resolve(config.to_dict(), [f"training.group.learners={learners}"])


def within_limits(config: Config, cell: Genotype) -> Config:
    """The config of a training with a network as large as its limits allow; without limits, as it is."""
    training = config.training
    if not training.limits:
        return config
    images = training_data_of(config).dataset.spec
    network = size.within_limits(cell, training.network, training.limits, images)
    return config.model_copy(update={"training": training.model_copy(update={"network": network})})


def _resolved_for_training(genotype: Genotype | Path | str, given: Mapping[str, Any]) -> Config:
    """Keys for the training of a cell, above those of the search that found it."""
    below = keys_for_training(genotype, given) if isinstance(genotype, str | Path) else {}
    space = {"space": {"name": _cell(genotype).space}}
    return resolve(overlaid(overlaid(below, given), space))


@dataclass(frozen=True)
class _Plan(Generic[Result]):
    """What makes one kind of run different from the others."""

    config: Config
    identity: Mapping[str, Any]
    begun: Callable[[Path], Mapping[str, Any]]
    """The identity of the run that was begun in a folder."""
    read: Callable[[Path], Result | None]
    """The result of a finished run."""
    carry_out: Callable[[Runner], Result]
    advice: str
    """What to do when memory runs out."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is written when the run begins, beside its config."""
    says_what: bool = True
    """Whether the caller gave more than defaults: else a folder without a run is not resumed but refused."""
    also: Sequence[str] = ()
    """How it computes beside the kernel path in use, see `canary`."""


def _carried_out(
    plan: _Plan[Result], out: Path | str | None, *, resume: bool, allow_drift: bool, watcher: Watcher | None
) -> Result:
    """Begin a run in a folder, or go on with it, or give the result of one that is finished."""
    config, tell = plan.config, warnings.warn if watcher is None else watcher.told
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as name:
        folder: Path = Path(name)
        check_part(folder)
        if resume and not plan.says_what and not is_begun(folder):
            raise nothing_to_resume(folder, "give a config that says what to run")
        if resume and (folder / CONFIG).exists():
            check_identity(plan.identity, plan.begun(folder))
            if (finished := plan.read(folder)) is not None:
                if not (folder / REPORT).exists():  # killed after the result was written
                    remove_unfinished(folder)
                    draw_all(folder, tell)
                return _with_history(finished, folder)
        check_place(folder, config, resume=resume)
        before = _device_before(folder) if resume else None
        with machine(config.run, before) as where, memory_explained(plan.advice):
            environment = environment_on(where, plan.also)
            runner = Runner(
                folder,
                identity=plan.identity,
                environment=environment,
                watcher=watcher,
                minutes=config.run.checkpoint_minutes,
                least_seconds=LEAST_SECONDS,
                allow_drift=allow_drift,
                skips=skips_of(config),
                # The config comes last: where it is, all that a run is known by is.
                files={**plan.files, CONFIG: config.to_yaml(environment.summary())},
            )
            result = plan.carry_out(runner)
        if out is not None:
            draw_all(folder, tell)
        return _with_history(result, folder)


def _with_history(result: Result, folder: Path) -> Result:
    """Give a result the metrics of its epochs, for tables and plots; without sound metrics it has none."""
    with suppress(OSError, ValueError):
        result.keep_history(read_current_rows(folder / METRICS))
    return result


def check_place(folder: Path, config: Config, *, resume: bool) -> None:
    """Refuse a folder that a run cannot have, such as one of other files, before anything is computed."""
    check_part(folder)
    check_for_run(folder)
    _check_outside(folder, config)
    check_folder(folder, resume=resume)


def _check_outside(folder: Path, config: Config) -> None:
    """Refuse a run among the classes of its images: it would be one of them when it is resumed."""
    for parent in source_of(config.data.dataset, data_root(config.data.data_root)).folders_of_classes():
        if folder.resolve().is_relative_to(parent.resolve()):
            raise ValueError(f"every folder in {shown(str(parent))} is a class, but the run's folder {folder} is in it")


@contextmanager
def _displays(
    display: type[SearchDisplay | TrainingDisplay], watcher: Watcher | None, *, progress: bool
) -> Iterator[Sequence[Watcher]]:
    """Progress for whoever did not bring a watcher.

    It is a recorder, not the watcher of the run: warnings stay warnings of Python's, which the caller can filter.
    """
    if watcher is not None or not progress:
        yield ()
        return
    with display(terse=True) as one:
        yield (one,)


def _device_before(folder: Path) -> str | None:
    """The device of the run in a folder; None if there is no run. Runs of earlier versions were made on the CPU."""
    if not (folder / CONFIG).exists():
        return None
    made = load_own(folder / CONFIG).get("environment")
    found = made.get("device") if isinstance(made, Mapping) else None
    return found if isinstance(found, str) else "cpu"
