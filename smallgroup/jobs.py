"""Jobs at their beginning: the search or the training that a config describes, its images, and how long it takes."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.data import SearchData, data_root, open_search_data
from smallgroup.data.training_data import TrainingData, Views, open_group_data, open_training_data
from smallgroup.group import Exchange, RankExchange
from smallgroup.phases.passes import PassTime
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.labelers import Labelers, labelers_of
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.search.timing import pass_time_of, reckoned
from smallgroup.phases.training import GroupCells, GroupJob, MutualJob, Peers, TrainingJob, cells
from smallgroup.phases.training.trainee import Build, Trainee
from smallgroup.runner import CHECKPOINTS
from smallgroup.runner.machine import machine
from smallgroup.runtime import device
from smallgroup.runtime.checkpoints import Checkpoints
from smallgroup.runtime.memory import memory_explained
from smallgroup.runtime.precision_names import check_first_order
from smallgroup.runtime.text import shown
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.ground_truth import GroundTruths
from smallgroup.spaces.networks import build_network

LOWER_IN_SEARCH = (
    "lower search.batch_size (train, unlabeled, validation), space.channels or space.cells, or take "
    "--hypergradient first-order"
)
LOWER_IN_TRAINING = (
    "lower training.batch_size, training.network.channels or training.network.cells, or raise training.accumulate"
)
"""What to do when memory runs out."""


def make_job(config: Config, data: SearchData | None = None, exchange: Exchange | None = None) -> SearchJob:
    """Build the search that a config describes, at its beginning; on other data than those it names, if given.

    With an `exchange` other processes compute some of the learners.
    """
    check_first_order(config.run.precision, config.search.hypergradient)
    data = data or open_search_data(config.data_in_search, seed=config.seed, image_size=config.search.image_size)
    images = data.dataset.spec
    learners = [((one.space or config.space).build(images), config.build_method(one)) for one in config.learners]
    truth = GroundTruths.find(data_root(config.data.data_root), (space.name for space, _ in learners))
    folder = config.search.labelers
    labelers = None if folder is None else read_labelers(folder, data)
    return SearchJob(
        config.search,
        data,
        learners,
        seed=config.seed,
        truth=truth,
        labelers=labelers,
        device=device.current(),
        exchange=exchange,
    )


def make_mutual(config: Config, group: Peers, exchange: Exchange | None = None) -> MutualJob:
    """Build the networks that learn from one another, at their beginning; other processes may compute some of them."""
    images, where = training_data_of(config), device.current()
    return MutualJob(config.training, images, group, seed=config.seed, device=where, exchange=exchange)


def read_labelers(folder: Path, data: SearchData) -> Labelers:
    """Read the learners of a finished search, to label images like those of `data`."""
    found = Checkpoints(folder / CHECKPOINTS).newest() if SearchResult.read(folder) is not None else None
    if found is None:
        raise ValueError(f"search.labelers must be the folder of a finished search, but {shown(str(folder))} is not")
    begun = resolve(load_own(folder / CONFIG))
    size, own = data.dataset.size, min(begun.search.image_size or data.full_size, data.full_size)
    if size != own:
        raise ValueError(
            f"learners in {shown(str(folder))} label images of the size they were searched with, {own}x{own}, but this "
            f"search has {size}x{size}; search.image_size={own} gives it the same"
        )
    job = make_job(begun.model_copy(update={"search": begun.search.model_copy(update={"labelers": None})}), data)
    try:
        return labelers_of(job.searchers, job.course.steps - 1, found)
    except (KeyError, RuntimeError) as error:
        why = str(error)[:200]
        raise ValueError(f"learners in {shown(str(folder))} must fit {data.dataset.name}, but do not: {why}") from None
    finally:
        job.close()


def reckon(
    config: Config, data: SearchData | None = None, measured: Callable[[Searcher], PassTime] = pass_time_of
) -> float:
    """Estimate the seconds of the search that a config describes; the estimate itself takes seconds.

    `data` takes the place of what the config names. `measured` says how long passes through a learner take.
    """
    with machine(config.run), memory_explained(LOWER_IN_SEARCH), closing(make_job(config, data)) as job:
        return reckoned(job, measured)


def reckon_training(
    config: Config,
    genotype: Genotype,
    data: TrainingData | None = None,
    measured: Callable[[Trainee], PassTime] | None = None,
) -> float:
    """Estimate the seconds of a training, as `reckon` does for a search."""
    with (
        machine(config.run),
        memory_explained(LOWER_IN_TRAINING),
        closing(make_training(config, genotype, data)) as job,
    ):
        return job.reckoned(measured)


def training_data_of(config: Config) -> TrainingData:
    """Open the images of a training."""
    training, own = config.training, config.training.group
    about: dict[str, Any] = {"seed": config.seed, "validation": training.validation}
    if own is None or own.learned_on == "labeled":
        return open_training_data(config.data, training.augmentation, **about)
    views = Views(own.weak, own.strong) if own.teaching.active else None
    return open_group_data(config.data, training.augmentation, **about, views=views)


def make_training(
    config: Config,
    genotype: Genotype | Sequence[Genotype],
    data: TrainingData | None = None,
    build: Build = build_network,
    exchange: RankExchange | None = None,
) -> TrainingJob | GroupJob:
    """Build the training that a config describes, at its beginning; on other data than those it names, if given.

    `build` makes another network than the one around the cell. Of a group, one cell is that of every network. With an
    `exchange` for one learner per rank, every rank computes slices of the batches of a network that is trained alone.
    """
    own = config.training.group
    networks = GroupCells.of(cells.listed(genotype), 1 if own is None else own.learners).genotypes
    images = data or training_data_of(config)
    if own is None:
        where = device.current()
        return TrainingJob(
            config.training, images, networks[0], seed=config.seed, device=where, build=build, exchange=exchange
        )
    return GroupJob(config.training, images, networks, seed=config.seed, device=device.current(), build=build)
