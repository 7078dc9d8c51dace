"""Jobs on the processes that `torchrun` has started: rank 0 carries a command out, the others compute for it.

    torchrun --nproc-per-node 2 -m smallgroup search --learners 2 --out runs/a

Rank 0 does everything that one process does. Where it makes a job that can be dealt to ranks, it tells the others the
config, and all of them make the same job and take the same steps. Of a search the ranks compute different learners; of
the training of one network they compute different images of a batch.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter

from smallgroup import kernels
from smallgroup.config import Config, resolve
from smallgroup.group import RankExchange
from smallgroup.jobs import LOWER_IN_SEARCH, LOWER_IN_TRAINING, make_job, make_mutual, make_training
from smallgroup.phases.search import SearchJob
from smallgroup.phases.training import GroupJob, MutualJob, Peers, TrainingJob
from smallgroup.runner import Runner
from smallgroup.runner.machine import machine
from smallgroup.runner.skips import Skips
from smallgroup.runtime import device, world
from smallgroup.runtime.environment import Environment
from smallgroup.runtime.launch import launched
from smallgroup.runtime.memory import memory_explained
from smallgroup.spaces import genotypes
from smallgroup.spaces.canary import canary

Result = TypeVar("Result")
AnyJob = TypeVar("AnyJob", bound=Any)
_ENVIRONMENT = TypeAdapter(Environment)


def on_ranks(carry_out: Callable[[], Result], asked: Mapping[str, Any]) -> Result | None:
    """Carry out a call, such as of `smallgroup.search`, with its work divided over all processes that were launched.

    Rank 0 returns the result. The others return None when it is done. Without `torchrun` it is simply carried out.
    After an error processes can only end: `torchrun` starts them again.

    Args:
        carry_out: what is done by rank 0.
        asked: what it is, as JSON; ranks that were asked for different things are refused.
    """
    launch = launched()
    if launch is None:
        return carry_out()
    with world.joined(launch) as together:
        text = json.dumps(asked, sort_keys=True, default=str)
        together.check_same("command and config", hashlib.sha256(text.encode()).hexdigest())
        if not together.is_first:
            try:
                _follow(together)
            except Exception:
                together.see_off()
                raise
            return None
        result = carry_out()
        together.tell(None)
        return result


def dealt(
    task: "RankTask", environment: Environment, learners: int | None, make: Callable[[RankExchange | None], AnyJob]
) -> AnyJob:
    """Make a job that is dealt to the ranks, and tell the other ranks to; in a process alone, make it.

    It is dealt by learners; None: by images, and every rank has the same network.
    """
    together = world.current()
    if together.ranks == 1:
        return make(None)
    if together.is_first:
        together.tell({**asdict(task), "environment": asdict(environment)})
    with together.together():
        job = make(RankExchange(together.ranks if learners is None else learners))
    together.check_same("images", str(job.data.digest))
    return job


def environment_on(where: torch.device, also: Sequence[str] = ()) -> Environment:
    """Describe what a run computes on, inside of `machine`; `also` is how beside the kernel path, see `canary`."""
    # Hashes of what the CPU computes say nothing about another device, for which no bits are promised.
    hashes = canary(*also) if where.type == "cpu" else {}
    return Environment.current(kernels.describe(kernels.current()), hashes, device.describe_device(where))


def skips_of(config: Config) -> Skips:
    """Return how many batches a run may leave out whose numbers are not finite."""
    return Skips(config.run.most_skipped if config.run.on_nonfinite == "skip" else 0)


@dataclass(frozen=True)
class RankTask:
    """The task that rank 0 sends to the others, as JSON."""

    kind: str
    """What is computed: search, mutual or training."""
    config: Mapping[str, Any]
    also: Sequence[str] = ()
    peers: str = ""
    """The text of `peers.json`, for networks that learn from one another."""
    space: str = ""
    genotype: Any = None
    """The cell of a training, and its space."""

    @property
    def learners(self) -> int | None:
        """How many are dealt to the ranks; None: images are."""
        if self.kind == "training":
            return None
        return len(self.config["learners"]) if self.kind == "search" else len(Peers.loads(self.peers).genotypes)


def _follow(together: world.World) -> None:
    """Compute what rank 0 tells, until it tells nothing more."""
    while (heard := _heard(together)) is not None:
        environment = _ENVIRONMENT.validate_python(heard.pop("environment"))
        _take_part(RankTask(**heard), environment, together)


def _heard(together: world.World) -> dict[str, Any] | None:
    try:
        return together.hear()
    except RuntimeError as error:
        raise world.LostRankError("rank 0 has ended before the others") from error


def _take_part(task: RankTask, first: Environment, together: world.World) -> None:
    """Take the steps of one job with the others."""
    config = resolve(task.config)
    advice = LOWER_IN_SEARCH if task.kind == "search" else LOWER_IN_TRAINING
    with machine(config.run, first.device) as where, memory_explained(advice):
        own = environment_on(where, task.also)

        def make(exchange: RankExchange | None) -> SearchJob | MutualJob | TrainingJob | GroupJob:
            if differences := first.differences(own):
                raise ValueError(f"it must compute as rank 0 does, but {'; '.join(differences)}")
            if task.kind == "search":
                return make_job(config, exchange=exchange)
            if task.kind == "training":
                return make_training(config, genotypes.from_plain(task.space, task.genotype), exchange=exchange)
            return make_mutual(config, Peers.loads(task.peers), exchange)

        job = dealt(task, own, task.learners, make)
        Runner(Path(), identity={}, environment=own, skips=skips_of(config), world=together).run(job)
        if isinstance(job, TrainingJob) and job.data.tested is not None:
            job.test()  # the last look at the test images, which rank 0 takes now with the others
