"""Jobs within a time budget: a new one gets a size that fits, one that was begun keeps the size it has."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from smallgroup.api.place import check_place
from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.fitting import SPENT, search_in_time, training_within
from smallgroup.phases.training.latency import Latencies
from smallgroup.runtime.budget import Budget, Clock
from smallgroup.runtime.checks import check_number
from smallgroup.spaces.genotype import Genotype


@dataclass(frozen=True)
class TimeBudget:
    """The time that a job may take, and the folder of its run."""

    seconds: float
    clock: Clock
    out: Path | str | None
    resume: bool
    measuring: Callable[[], None] | None
    """Called once, before the steps are measured whose time decides how many fit."""

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, positive=True)

    def search(self, config: Config) -> Config:
        """Return the config of a search that fits."""
        begun = self._begun()
        if begun is None:
            return search_in_time(config, self._begin(config))
        length = {name: getattr(begun.search, name) for name in ("epochs", "steps_per_epoch")}
        search = config.search.model_copy(update=length)
        playoff = config.playoff.model_copy(update={"seconds": begun.playoff.seconds})
        return config.model_copy(update={"search": search, "playoff": playoff})

    def training(self, config: Config, cell: Genotype, latencies: Latencies) -> Config:
        """Return the config of a training that fits; networks may be measured for a limit on latency."""
        begun = self._begun()
        if begun is None:
            return training_within(config, cell, self._begin(config), latencies=latencies)
        size = {name: getattr(begun.training, name) for name in ("epochs", "steps_per_epoch", "network")}
        return config.model_copy(update={"training": config.training.model_copy(update=size)})

    def _begun(self) -> Config | None:
        """Return the config of the run to resume; None if it is a new one."""
        own = None if self.out is None else Path(self.out) / CONFIG
        return resolve(load_own(own)) if self.resume and own is not None and own.exists() else None

    def _begin(self, config: Config) -> Budget:
        """Refuse a folder that the run cannot have; else the time runs."""
        if self.out is not None:
            check_place(Path(self.out), config, resume=self.resume)
        if self.measuring is not None:
            self.measuring()
        return Budget(SPENT * self.seconds, self.clock)
