"""Configs that fit into a time: a few steps are taken to see how long they take, and lengths and sizes follow."""

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from smallgroup.config import Config, resolve
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters.latency import measure as measure_latency
from smallgroup.jobs import LOWER_IN_SEARCH, LOWER_IN_TRAINING, make_job, make_training, training_data_of
from smallgroup.phases.passes import FORWARD
from smallgroup.phases.search.timing import fitted as fitted_steps
from smallgroup.phases.search.timing import measure
from smallgroup.phases.training.latency import Latencies
from smallgroup.phases.training.size import ladder, within_limits
from smallgroup.phases.training.trainee import Build
from smallgroup.runner.machine import machine
from smallgroup.runtime.budget import CLOCKS, Budget, Clock
from smallgroup.runtime.memory import memory_explained
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.networks import build_network

SPENT = 0.93
"""The part of a time budget that is shared out; checkpoints and the last look at the images take the rest."""
SEARCH_SHARE = 0.7
"""The most of a time budget that goes to the steps of a search, where a play-off follows."""


@dataclass(frozen=True)
class FittedSearch:
    """A search that fits, and about how many seconds it takes."""

    config: Config
    seconds: float


def search_within(config: Config, budget: Budget, share: float = 1.0) -> FittedSearch:
    """Shorten a search until it takes at most a share of what is left; one that fits stays as it is.

    A search is not made longer: how long it is, is part of the recipe, and longer ones are not better.
    """
    with machine(config.run), memory_explained(LOWER_IN_SEARCH), closing(make_job(config)) as job:
        cost = measure(job, budget.now)
        whole = cost.of(job.course)
        if whole <= share * budget.left:
            return FittedSearch(config, whole)
        epochs, steps = fitted_steps(job, cost, share * budget.left)
    shorter = resolve(config.to_dict(), [f"search.epochs={epochs}", f"search.steps_per_epoch={steps}"])
    return FittedSearch(shorter, share * budget.left)


def search_in_time(config: Config, budget: Budget) -> Config:
    """Shorten a search until it fits into a budget, measuring included; a play-off takes what the search leaves."""
    answer = config.search.answer
    fitted = search_within(config, budget, SEARCH_SHARE if answer == "play-off" else 1.0)
    if answer != "play-off":
        return fitted.config
    return resolve(fitted.config.to_dict(), [f"playoff.seconds={max(1.0, budget.left - fitted.seconds):.3f}"])


@dataclass(frozen=True)
class _Pace:
    """The measured speed of a training."""

    step: float
    look: float
    """Seconds of the look at the validation images after each epoch."""
    at_end: float
    """Seconds of the look at the test images."""
    steps_per_epoch: int

    def epochs(self, seconds: float) -> float:
        """Return how many epochs fit, as a fraction."""
        return max(0.0, seconds - self.at_end) / (self.steps_per_epoch * self.step + self.look)

    def length(self, seconds: float) -> tuple[int, int]:
        """Return the epochs that fill the time, and the steps of each.

        Whole epochs alone would leave up to one of them unused, so that each is a little shorter where that pays.
        """
        whole, number = int(self.epochs(seconds)), math.ceil(self.epochs(seconds))
        steps = max(1, int((seconds - self.at_end - number * self.look) / (number * self.step)))
        return (whole, self.steps_per_epoch) if whole * self.steps_per_epoch >= number * steps else (number, steps)


def training_within(
    config: Config,
    genotype: Genotype,
    budget: Budget,
    share: float = 1.0,
    *,
    build: Build = build_network,
    latencies: Latencies | None = None,
) -> Config:
    """Fit the epochs to a share of the time left, with the largest network that leaves time for enough steps.

    Without `training.least_steps` the network stays as it is. `latencies` are those of networks that were measured for
    a limit on latency; more may be added.
    """
    sized, pace = _largest_in_time(
        config, genotype, budget.now, lambda: share * budget.left, build=build, latencies=latencies
    )
    seconds = share * budget.left
    epochs = pace.epochs(seconds)
    if epochs * pace.steps_per_epoch < 1:
        raise ValueError(
            f"a time budget must be enough for a step of the training, {pace.step:.3g} s here, but {seconds:.3g} s of "
            "it are left after measuring the steps"
        )
    number, steps = pace.length(seconds)
    return resolve(sized.to_dict(), [f"training.epochs={number}", f"training.steps_per_epoch={steps}"])


def network_for_steps(
    config: Config, genotype: Genotype, latencies: Latencies, *, steps: int, seconds: float, clock: Clock = "wall"
) -> NetworkConfig:
    """The largest network within the limits that makes so many steps in so many seconds."""
    config = config.model_copy(update={"training": config.training.model_copy(update={"least_steps": steps})})
    chosen, _ = _largest_in_time(config, genotype, CLOCKS[clock], lambda: seconds, latencies=latencies)
    return chosen.training.network


def _largest_in_time(
    config: Config,
    genotype: Genotype,
    clock: Callable[[], float],
    left: Callable[[], float],
    *,
    build: Build = build_network,
    latencies: Latencies | None = None,
) -> tuple[Config, _Pace]:
    """The config with the largest network that leaves time for `training.least_steps`, and its pace."""
    with machine(config.run), memory_explained(LOWER_IN_TRAINING):
        data = training_data_of(config)
        chosen: tuple[Config, _Pace] | None = None
        least = config.training.least_steps or 0
        for network in _networks(config, genotype, data, latencies or Latencies(measure_latency)):
            sized = with_network(config, network)
            pace = _pace(sized, genotype, data, clock, build)
            enough = pace.epochs(left()) * pace.steps_per_epoch >= least
            if enough or chosen is None:
                chosen = sized, pace
            if not enough:
                break
    assert chosen is not None  # there is always a smallest network
    return chosen


def _networks(config: Config, genotype: Genotype, data: TrainingData, latencies: Latencies) -> Iterator[NetworkConfig]:
    """Yield the networks to choose from, from small to large, each within the limits."""
    own, limits, images = config.training.network, config.training.limits, data.dataset.spec
    if config.training.least_steps is None:
        yield within_limits(genotype, own, limits, images, latencies)
        return
    for network in ladder(genotype.space, own):
        narrowed = within_limits(genotype, network, limits, images, latencies)
        yield narrowed
        if narrowed != network:
            return


def with_network(config: Config, network: NetworkConfig) -> Config:
    """Return the config of the training of another network."""
    return config.model_copy(update={"training": config.training.model_copy(update={"network": network})})


def _pace(config: Config, genotype: Genotype, data: TrainingData, clock: Callable[[], float], build: Build) -> _Pace:
    with closing(make_training(config, genotype, data, build)) as job:
        step = job.measure(clock=clock)
        image = FORWARD * step / config.training.batch_size
        validation = 0 if data.validation is None else len(data.validation)
        tests = 0 if data.tested is None else len(data.tested[1])
        return _Pace(step, validation * image, tests * image, job.steps_per_epoch)
