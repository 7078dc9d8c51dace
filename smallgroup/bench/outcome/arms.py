"""What is compared: a whole run, and what a user might do with the same CPU time instead.

Every arm gets the same images, the same seed and the same CPU seconds for everything it does. Arms "of the same cost"
train a network with the multiply-adds of the one that `run` found, and have for training what `run` has for searching.
"""

import math
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smallgroup import pipeline
from smallgroup.bench.outcome.plain import build_cnn, build_resnet
from smallgroup.bench.outcome.proxies import PROXIES
from smallgroup.bench.outcome.tasks import OutcomeTask
from smallgroup.config import Config
from smallgroup.data.training_data import TrainingData, open_parts_of_search
from smallgroup.fitting import training_within
from smallgroup.jobs import training_data_of
from smallgroup.phases.playoff.candidates import distinct
from smallgroup.phases.playoff.job import Candidate, PlayOffJob
from smallgroup.phases.training.job import TrainingJob
from smallgroup.phases.training.size import of_same_cost
from smallgroup.phases.training.trainee import Build
from smallgroup.pipeline import OVERHEAD, PLAY_OFF_SHARE
from smallgroup.runner.machine import machine
from smallgroup.runtime import device, stream
from smallgroup.runtime.budget import Budget
from smallgroup.spaces.choices import known_genotype, random_genotype
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.drawing import one_line
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import from_plain
from smallgroup.spaces.networks import build_network

SPACE = Config().space.name
"""That of a run whose user names none."""
RESNET, ALL_3X3 = (known_genotype(name, SPACE) for name in ("resnet", "all-3x3"))
MOST_CELLS = 3000
"""Random cells that a proxy looks at, at most: there are not many more."""


@dataclass(frozen=True)
class ArmOutcome:
    """The error, size and cost of one arm with one seed."""

    arm: str
    task: str
    seed: int
    test_error: float
    parameters: int
    multiply_adds: int
    steps: int
    epochs: int
    cpu_seconds: float
    """CPU seconds of everything, including the look at the test images."""
    search_seconds: float = 0.0
    """CPU seconds before the training: of search, play-off and choices."""
    network: str = ""
    """The cell, or the kind of network."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the file of the outcome."""
        return asdict(self)


Arm = Callable[[OutcomeTask, int, ArmOutcome | None], ArmOutcome]
"""Carries out a task with a seed; the outcome of `run` on both says what costs the same."""


def _run(name: str, **more: Any) -> Arm:  # noqa: ANN401 -- keys of a config
    """Return the arm of a whole run without baselines."""

    def carry_out(task: OutcomeTask, seed: int, _: ArmOutcome | None) -> ArmOutcome:
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            before = _Watch()
            result = pipeline.run(
                task.config(seed, **more),
                out=Path(folder) / "run",
                seconds=task.seconds,
                clock="cpu",
                baselines=(),
                progress=False,
                before_training=before.note,
            )
        own = result.training
        assert own.test_error is not None
        cell = from_plain(own.space, own.genotype)
        return ArmOutcome(
            name,
            task.name,
            seed,
            own.test_error,
            own.parameters,
            own.multiply_adds,
            own.steps,
            own.epochs,
            time.process_time() - start,
            before.seconds - start,
            one_line(cell),
        )

    return carry_out


@dataclass
class _Watch:
    """Note the CPU seconds at which the training begins."""

    seconds: float = 0.0

    def note(self) -> None:
        self.seconds = time.process_time()


def _network(name: str, cell: Genotype | None, build: Build = build_network, *, same_cost: bool) -> Arm:
    """Return a network trained for all of the time: of the cost of the network found, or of a size chosen by time."""

    def carry_out(task: OutcomeTask, seed: int, found: ArmOutcome | None) -> ArmOutcome:
        own = cell or _random(seed, "random cell")
        budget, like = _all_of(task), found if same_cost else None
        return _trained(name, task, seed, own, budget=budget, build=build, found=like)

    return carry_out


def _by_proxy(proxy: str) -> Arm:
    """Return the best of as many random cells as the search's time pays for, by a number that needs no training."""

    def carry_out(task: OutcomeTask, seed: int, found: ArmOutcome | None) -> ArmOutcome:
        assert found is not None
        budget = _all_of(task)
        config = task.config(seed)
        with machine(config.run):
            data = training_data_of(config)
            images, _ = data.train(config.training.batch_size, seed).batch(0)
            design = config.training.network.design(data.dataset.spec, SPACE)
            best, highest = _random(seed, proxy, 0), -math.inf
            for number in range(MOST_CELLS):
                if budget.spent > found.search_seconds:
                    break
                one = _random(seed, proxy, number)
                score = PROXIES[proxy](build_network(one, design, generator=stream(seed, "proxy", number)), images)
                if score > highest:
                    best, highest = one, score
        return _trained(f"best random by {proxy}", task, seed, best, budget=budget)

    return carry_out


def _random_play_off(task: OutcomeTask, seed: int, found: ArmOutcome | None) -> ArmOutcome:
    """Return random candidates through the same play-off, with the time of search and play-off together."""
    assert found is not None
    budget = _all_of(task)
    config = task.config(seed)
    seconds = found.search_seconds
    # As many more candidates as there is more time than in a play-off after a search.
    usual = PLAY_OFF_SHARE * max(1.0, OVERHEAD * task.seconds - found.search_seconds)
    most = max(2, round(config.playoff.candidates * seconds / usual))
    # Cells that are the same function count once, so more are drawn than are compared.
    cells = (Candidate(f"random {k}", _random(seed, "play-off", k)) for k in range(20 * most))
    settings = config.playoff.model_copy(update={"seconds": seconds})
    with machine(config.run):
        data = open_parts_of_search(config.data, config.data.augmentation, seed=seed)
        job = PlayOffJob(settings, data, distinct(cells, most), seed=seed)
        while not job.finished:
            job.advance()
    best = job.candidates[job.winner].genotype
    return _trained("random play-off", task, seed, best, budget=budget)


def _all_of(task: OutcomeTask) -> Budget:
    return Budget(OVERHEAD * task.seconds, "cpu")


def _random(seed: int, *key: int | str) -> Genotype:
    return random_genotype(SPACE, stream(seed, *key))


def _trained(
    name: str,
    task: OutcomeTask,
    seed: int,
    cell: Genotype,
    *,
    budget: Budget,
    build: Build = build_network,
    found: ArmOutcome | None = None,
) -> ArmOutcome:
    """Train a network in what is left of the time, and test it once."""
    before, config = budget.spent, task.config(seed)
    if build is not build_network:
        config = _with(config, network=config.training.network.model_copy(update={"stages": 3}))
    with machine(config.run):
        data = training_data_of(config)
        if found is not None:
            network = of_same_cost(cell, config.training.network, found.multiply_adds, data.dataset.spec, build)
            config = _with(config, network=network, least_steps=None)
        config = training_within(config, cell, budget, build=build)
        with closing(_job(config, data, cell, build)) as job:
            _carry_out(job)
            tested = job.test()
            size = parameters(job.network), multiply_adds(job.network, data.dataset.size, data.dataset.channels)
    return ArmOutcome(
        name,
        task.name,
        seed,
        tested.error,
        *size,
        job.steps,
        config.training.epochs,
        budget.spent,
        before,
        name if build is not build_network else one_line(cell),
    )


def _with(config: Config, **keys: Any) -> Config:  # noqa: ANN401 -- of the training
    return config.model_copy(update={"training": config.training.model_copy(update=keys)})


def _job(config: Config, data: TrainingData, cell: Genotype, build: Build) -> TrainingJob:
    return TrainingJob(config.training, data, cell, seed=config.seed, device=device.current(), build=build)


def _carry_out(job: TrainingJob) -> None:
    while not job.finished:
        job.advance()


ARMS: dict[str, Arm] = {
    "run": _run("run"),
    "run, independent pair": _run("run, independent pair", lam=0.0),
    "random cell, same cost": _network("random cell, same cost", None, same_cost=True),
    "all-3x3 cell, same cost": _network("all-3x3 cell, same cost", ALL_3X3, same_cost=True),
    **{f"best random by {proxy}": _by_proxy(proxy) for proxy in PROXIES},
    "random play-off": _random_play_off,
    "plain CNN, same cost": _network("plain CNN, same cost", RESNET, build_cnn, same_cost=True),
    "ResNet, same cost": _network("ResNet, same cost", RESNET, build_resnet, same_cost=True),
    "plain CNN, own size": _network("plain CNN, own size", RESNET, build_cnn, same_cost=False),
    "ResNet, own size": _network("ResNet, own size", RESNET, build_resnet, same_cost=False),
}
"""By name; `run` comes first, because others need to know what it cost."""
SAME_COST = tuple(name for name in ARMS if name.endswith("same cost"))
