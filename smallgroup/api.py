"""The jobs, for Python: what the command does, without the command."""

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from smallgroup import kernels
from smallgroup.config import CONFIG, Config, RunConfig, keys_for_training, keys_of_any, load_own, overlaid, resolve
from smallgroup.data import SearchData, data_root, open_search_data
from smallgroup.data.folder import class_parents
from smallgroup.data.names import FOLDER
from smallgroup.data.roots import expanded
from smallgroup.data.training_data import open_training_data
from smallgroup.display.search import SearchDisplay
from smallgroup.display.training import TrainingDisplay
from smallgroup.networks import NetworkDesign
from smallgroup.pages import REPORT, draw_all
from smallgroup.phases.evaluation import MutualJob, MutualResult, Peers, TrainingJob, TrainResult, peers
from smallgroup.phases.evaluation.limits import Choice, check_fits, choose, read_architectures
from smallgroup.phases.evaluation.mutual_result import conclude as conclude_mutual
from smallgroup.phases.evaluation.record import recorder as training_recorder
from smallgroup.phases.evaluation.result import conclude as conclude_training
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.labellers import Labellers, labellers_of
from smallgroup.phases.search.record import recorder as search_recorder
from smallgroup.phases.search.result import ARCHITECTURES, SearchResult
from smallgroup.phases.search.result import conclude as conclude_search
from smallgroup.phases.search.timing import fitted, measure, reckoned
from smallgroup.places import check_for_run, holds_run, is_begun, nothing_to_resume
from smallgroup.runner import CHECKPOINTS, Runner, Watcher, check_identity
from smallgroup.runner.skips import Skips
from smallgroup.runtime.allocator import keep_memory
from smallgroup.runtime.checkpoints import Checkpoints
from smallgroup.runtime.environment import Environment, threads
from smallgroup.runtime.files import check_not_link, remove_unfinished
from smallgroup.runtime.memory import memory_explained
from smallgroup.runtime.text import shown
from smallgroup.spaces import genotypes
from smallgroup.spaces.canary import canary
from smallgroup.spaces.genotypes import AnyGenotype
from smallgroup.spaces.ground_truth import GroundTruth

LOWER_IN_SEARCH = (
    "lower search.batch_size (train, unlabeled, validation), space.channels or space.cells, or take "
    "--hypergradient first-order"
)
LOWER_IN_TRAINING = (
    "lower training.batch_size, training.network.channels or training.network.cells, or raise training.accumulate"
)
"""What to do when memory runs out."""

Result = TypeVar("Result", SearchResult, TrainResult, MutualResult)


def search(
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
    recorders: Sequence[Watcher] = (),
    progress: bool = True,
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
    """
    resolved = config if isinstance(config, Config) else resolve(keys_of_any(config))

    def begun(folder: Path) -> Mapping[str, Any]:
        return resolve(load_own(folder / CONFIG)).of_search()

    def carry_out(runner: Runner) -> SearchResult:
        job = make_job(resolved)
        with _displays(SearchDisplay, watcher, progress=progress) as displays:
            runner.recorders = (*displays, *recorders, search_recorder(job, runner.folder))
            seconds = runner.run(job, resume=resume)
        return conclude_search(job, seed=resolved.seed, seconds=seconds, folder=runner.folder)

    also = ("plain",) if resolved.search.hypergradient == "exact" else ()
    plan = _Plan(resolved, resolved.of_search(), begun, SearchResult.read, carry_out, LOWER_IN_SEARCH)
    plan = replace(plan, says_what=config is not None, also=also)
    return _carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)


def train(
    genotype: AnyGenotype | Path | str,
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
    recorders: Sequence[Watcher] = (),
    progress: bool = True,
) -> TrainResult:
    """Train a cell from scratch in a large network, test it once, and give the result.

    Args:
        genotype: the cell; a published name, a file, the folder of a search, or its text.
        config: data, seed and `training`, as in `search`. Of a dictionary or a file, what is not given comes from the
            search, if the genotype is the folder of one, and from the recipe; a `Config` says everything by itself.
            With `training.max_parameters` or `max_multiply_adds` the cell of a search is chosen to fit.
        out: the run's folder; None: nothing is kept but the result.
        resume: go on with the run in that folder; a finished one gives its result.
        allow_drift: resume even where the same bits cannot be promised.
        watcher: who is told how it goes.
        recorders: who else is, such as `smallgroup.runner.tensorboard.EventFiles`.
        progress: show progress on standard error or in the notebook, unless there is a `watcher`.
    """
    resolved = config if isinstance(config, Config) else _resolved_for_training(genotype, keys_of_any(config))
    chosen = cell_for(genotype, resolved)
    own = {"genotype": genotypes.to_plain(chosen.genotype)}

    def begun(folder: Path) -> Mapping[str, Any]:
        saved = genotypes.to_plain(genotypes.read(folder / genotypes.FILE, links=False)[0])
        return {**resolve(load_own(folder / CONFIG)).of_training(), "genotype": saved}

    def carry_out(runner: Runner) -> TrainResult:
        job = make_training(resolved, chosen)
        with _displays(TrainingDisplay, watcher, progress=progress) as displays:
            runner.recorders = (*displays, *recorders, training_recorder(job, runner.folder))
            seconds = runner.run(job, resume=resume)
        return conclude_training(job, seconds=seconds, folder=runner.folder)

    files = {genotypes.FILE: genotypes.dumps(chosen.genotype) + "\n"}
    identity = {**resolved.of_training(), **own}
    plan = _Plan(resolved, identity, begun, TrainResult.read, carry_out, LOWER_IN_TRAINING, files)
    plan = replace(plan, says_what=config is not None or _is_run(genotype), also=_precision(resolved))
    return _carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)


def train_mutually(
    genotypes: AnyGenotype | Path | str | Sequence[AnyGenotype | Path | str],
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    weight: float = 1.0,
    learners: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    watcher: Watcher | None = None,
    progress: bool = True,
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
    """
    named = list(genotypes) if isinstance(genotypes, Sequence) and not isinstance(genotypes, str) else [genotypes]
    cells = tuple(_cell(one) for one in named)
    group = Peers.of(cells, learners, weight)
    resolved = config if isinstance(config, Config) else _resolved_for_training(named[0], keys_of_any(config))

    def begun(folder: Path) -> Mapping[str, Any]:
        return {**resolve(load_own(folder / CONFIG)).of_training(), **Peers.read(folder).to_dict()}

    def carry_out(runner: Runner) -> MutualResult:
        data = open_training_data(resolved.data, resolved.training.augmentation, seed=resolved.seed)
        job = MutualJob(resolved.training, data, group, seed=resolved.seed)
        with _displays(TrainingDisplay, watcher, progress=progress) as displays:
            runner.recorders = (*displays, training_recorder(job, runner.folder))
            seconds = runner.run(job, resume=resume)
        return conclude_mutual(job, seconds=seconds, folder=runner.folder)

    identity = {**resolved.of_training(), **group.to_dict()}
    advice, files = f"{LOWER_IN_TRAINING}, or take fewer learners", {peers.FILE: group.dumps()}
    plan = _Plan(resolved, identity, begun, MutualResult.read, carry_out, advice, files)
    plan = replace(plan, says_what=config is not None or _is_run(named[0]), also=_precision(resolved))
    return _carried_out(plan, out, resume=resume, allow_drift=allow_drift, watcher=watcher)


def _is_run(genotype: AnyGenotype | Path | str) -> bool:
    """Whether a cell is named by the folder of its search, which says what data it is for."""
    return isinstance(genotype, str | Path) and holds_run(Path(genotype))


def _precision(config: Config) -> tuple[str, ...]:
    """The mixed precision of a training, if it has one."""
    return () if config.training.precision == "float32" else (config.training.precision,)


def _cell(genotype: AnyGenotype | Path | str) -> AnyGenotype:
    return genotypes.resolve(str(genotype))[1] if isinstance(genotype, str | Path) else genotype


def cell_for(genotype: AnyGenotype | Path | str, config: Config) -> Choice:
    """The cell that a training takes: the one that is named, or of a search with limits the best one that fits."""
    cell, limits = _cell(genotype), config.training.limits
    if not limits:
        return Choice(cell)
    dataset = open_training_data(config.data, config.training.augmentation, seed=config.seed).dataset

    def design(one: AnyGenotype) -> NetworkDesign:
        return config.training.network.design(
            classes=len(dataset.classes),
            image_channels=dataset.channels,
            image_size=dataset.size,
            space=genotypes.space_of(one),
        )

    run = Path(genotype) if isinstance(genotype, str | Path) else None
    if run is None or not (run / CONFIG).is_file():
        check_fits(cell, limits, design)
        return Choice(cell)
    result = SearchResult.read(run)
    if result is None:
        raise ValueError(f"a limit chooses among the cells of a finished search, but there is no result in {run}")
    return choose(read_architectures(run / ARCHITECTURES), result.retained, limits, design)


def _resolved_for_training(genotype: AnyGenotype | Path | str, given: Mapping[str, Any]) -> Config:
    """Keys for the training of a cell, above those of the search that found it."""
    below = keys_for_training(genotype, given) if isinstance(genotype, str | Path) else {}
    space = {"space": {"name": genotypes.space_of(_cell(genotype))}}
    return resolve(overlaid(overlaid(below, given), space))


def make_job(config: Config, data: SearchData | None = None) -> SearchJob:
    """The search that a config describes, at its beginning; on other data than those it names, if given."""
    data = data or open_search_data(config.data_in_search, seed=config.seed)
    images = {"classes": len(data.dataset.classes), "image_channels": data.dataset.channels}
    learners = [
        ((one.space or config.space).build(image_size=data.dataset.size, **images), config.build_method(one))
        for one in config.learners
    ]
    truth = GroundTruth.find(data_root(config.data.data_root), (space.name for space, _ in learners))
    folder = config.search.labellers
    labellers = None if folder is None else read_labellers(folder, data)
    return SearchJob(config.search, data, learners, seed=config.seed, truth=truth, labellers=labellers)


def read_labellers(folder: Path, data: SearchData) -> Labellers:
    """The learners of a finished search, to label images like those of `data`."""
    found = Checkpoints(folder / CHECKPOINTS).newest() if SearchResult.read(folder) is not None else None
    if found is None:
        raise ValueError(f"search.labellers must be the folder of a finished search, but {shown(str(folder))} is none")
    begun = resolve(load_own(folder / CONFIG))
    job = make_job(begun.model_copy(update={"search": begun.search.model_copy(update={"labellers": None})}), data)
    try:
        return labellers_of(job.searchers, job.course.steps - 1, found)
    except (KeyError, RuntimeError) as error:
        why = str(error)[:200]
        raise ValueError(f"learners in {shown(str(folder))} must fit {data.dataset.name}, but do not: {why}") from None
    finally:
        job.close()


def within(config: Config, seconds: Callable[[], float]) -> Config:
    """The config with as many epochs as fit into a time; what depends on their number follows.

    A few steps are taken to find out how long they take; `seconds` is asked afterwards for the time that is left.
    """
    with _machine(config.run), memory_explained(LOWER_IN_SEARCH):
        job = make_job(config)
        epochs, steps = fitted(job, measure(job), seconds())
    return resolve(config.to_dict(), [f"search.epochs={epochs}", f"search.steps_per_epoch={steps}"])


def reckon(config: Config) -> float:
    """About how many seconds the search would take that a config describes: a matter of seconds itself."""
    with _machine(config.run), memory_explained(LOWER_IN_SEARCH), closing(make_job(config)) as job:
        return reckoned(job)


def reckon_training(config: Config, genotype: AnyGenotype) -> float:
    """The same of a training."""
    with (
        _machine(config.run),
        memory_explained(LOWER_IN_TRAINING),
        closing(make_training(config, Choice(genotype))) as job,
    ):
        return job.reckoned()


def training_within(
    config: Config, genotypes: Sequence[AnyGenotype | Path | str], seconds: Callable[[], float]
) -> Config:
    """The same for the training of every given cell, one after the other: as many epochs as all of them can have.

    The epochs are shorter ones if not one whole epoch fits.
    """
    step, per_epoch = 0.0, 1
    with _machine(config.run), memory_explained(LOWER_IN_TRAINING):
        for genotype in genotypes:
            with closing(make_training(config, cell_for(genotype, config))) as job:
                step += job.measure()
                per_epoch = job.steps_per_epoch  # a matter of the data: the same for every cell
    left = max(0.0, seconds())
    affordable = int(left / step)
    if affordable < 1:
        each = "a step" if len(genotypes) == 1 else f"a step of each of {len(genotypes)} cells"
        raise ValueError(
            f"a time budget must be enough for {each}, {step:.3g} s here, but {left:.3g} s of it are left after "
            "measuring the steps"
        )
    per_epoch = min(per_epoch, affordable)
    changes = [f"training.epochs={affordable // per_epoch}", f"training.steps_per_epoch={per_epoch}"]
    return resolve(config.to_dict(), changes)


def make_training(config: Config, chosen: Choice) -> TrainingJob:
    """The training that a config describes, at its beginning."""
    data = open_training_data(config.data, config.training.augmentation, seed=config.seed)
    return TrainingJob(config.training, data, chosen.genotype, seed=config.seed, chosen=chosen)


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
        if (folder.parent / CONFIG).exists():  # a part of another run, such as the training of a search
            check_not_link(folder)
        if resume and not plan.says_what and not is_begun(folder):
            raise nothing_to_resume(folder, "give a config that says what to run")
        if resume and (folder / CONFIG).exists():
            check_identity(plan.identity, plan.begun(folder))
            if (finished := plan.read(folder)) is not None:
                if not (folder / REPORT).exists():  # killed after the result was written
                    remove_unfinished(folder)
                    draw_all(folder, tell)
                return finished
        with _machine(config.run), memory_explained(plan.advice):
            environment = Environment.current(kernels.describe(kernels.current()), canary(*plan.also))
            runner = Runner(
                folder,
                identity=plan.identity,
                environment=environment,
                watcher=watcher,
                minutes=config.run.checkpoint_minutes,
                allow_drift=allow_drift,
                skips=Skips(config.run.most_skipped if config.run.on_nonfinite == "skip" else 0),
                files={CONFIG: config.to_yaml(environment.summary()), **plan.files},
            )
            check_for_run(folder)
            _check_outside(folder, config.data.dataset)
            runner.check(resume=resume)
            result = plan.carry_out(runner)
        if out is not None:
            draw_all(folder, tell)
        return result


def _check_outside(folder: Path, dataset: str) -> None:
    """Refuse a run among the classes of its images: it would be one of them when it is resumed."""
    if not dataset.startswith(FOLDER):
        return
    for parent in class_parents(expanded(dataset.removeprefix(FOLDER))):
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


@contextmanager
def _machine(run: RunConfig) -> Iterator[None]:
    """Torch on so many threads and our networks on those kernels, and then as before."""
    keep_memory()
    with threads(run.threads), kernels.using(run.kernels):
        yield
