"""How long the rows of the paper's tables would take on this machine, before anybody starts one.

Passes of a few images through each network are measured once per machine, and kept in the user's cache folder. How many
passes a row takes follows from its recipe and the published numbers of images: no data is needed.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from smallgroup import jobs, kernels
from smallgroup.config import Config, resolve
from smallgroup.data.published import blank_search_data, blank_training_data
from smallgroup.data.roots import cache_folder
from smallgroup.phases.passes import PassTime
from smallgroup.phases.search import timing
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.training import course
from smallgroup.phases.training.trainee import Trainee
from smallgroup.recipes import PaperRow
from smallgroup.runner.machine import machine
from smallgroup.runtime.device import describe_device
from smallgroup.runtime.device_names import AUTO
from smallgroup.runtime.environment import Environment, cores
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.runtime.memory import OutOfMemory
from smallgroup.spaces import Space, genotypes
from smallgroup.study.baselines import untrained
from smallgroup.version import __version__

FILE = "row-times.json"
"""Name of the file in the user's cache folder."""
_SCHEMA = 1
_LARGEST = 1_000_000
"""Bytes of that file; it has about ten thousand."""
_BUSY = 0.5
"""Processes per processor above which a machine is too busy for times that are kept."""
_CLASSES = 10
_CELLS = {"darts": "DARTS_V2", "darts-minus": "DARTS-/cifar10_s0_0", "p-darts": "PDARTS", "pc-darts": "PCDARTS_cifar"}
"""What each method found in its own paper, in place of the cell that a search is going to find."""


@dataclass(frozen=True)
class RowTime:
    """Seconds of a row of a table; None: a batch does not fit into the free memory."""

    search: float | None
    training: float | None


def row_times(rows: Sequence[PaperRow], tell: Callable[[str], None], device: str = AUTO) -> list[RowTime]:
    """Return the time of each row on a device: a kept one, or where there is none, one that is measured and then kept.

    What is measured while others use the machine is not kept. `tell` is given a few words on each network that is
    about to be measured, which takes seconds.
    """
    place = cache_folder() / FILE
    known, busy, meter = _kept(place), machine_is_busy(), PassMeter(tell)

    def seconds(config: Config, identity: Mapping[str, Any], measure: Callable[[], float]) -> float | None:
        key = _key(config, identity)
        if key not in known:
            try:
                known[key] = measure()
            except OutOfMemory:
                return None
        return known[key]

    found = []
    for row in rows:
        search, training = (_on(device, config) for config in (resolve(row.keys), training_of(row)))
        cell = _cell_for(training)
        found.append(
            RowTime(
                seconds(search, search.of_search(), partial(search_time, search, meter)),
                seconds(training, {**training.of_training(), "cell": cell}, partial(training_time, training, meter)),
            )
        )
    if meter.lines and not busy:
        _keep(place, known)
    return found


def _on(device: str, config: Config) -> Config:
    return config.model_copy(update={"run": config.run.model_copy(update={"device": device})})


def machine_is_busy() -> bool:
    """Return whether other processes take time from what is measured."""
    return os.getloadavg()[0] > _BUSY * cores()


def training_of(row: PaperRow) -> Config:
    """Return the config with which the cell of a row is trained."""
    search = resolve(row.keys)
    keys = {"recipe": row.recipe, "dataset": row.train or search.data.dataset, "space": search.space.name}
    return resolve({**keys, "learners": search.to_dict()["learners"]})


def search_time(config: Config, meter: "PassMeter") -> float:
    """Return about how many seconds a search takes on data of the published size."""
    return jobs.reckon(config, blank_search_data(config.data_in_search, seed=config.seed), meter.of_searcher)


def training_time(config: Config, meter: "PassMeter") -> float:
    """Return the same of the training of what the search finds."""
    published = _cell_for(config)
    cell = untrained(config)[0] if published is None else genotypes.resolve(published)[1]
    return jobs.reckon_training(config, cell, blank_training_data(config.data), meter.of_trainee)


def _cell_for(config: Config) -> str | None:
    """Return the name of the cell that a method's own paper found, if it is of the space of the config."""
    name = _CELLS.get(config.learners[0].method)
    return name if name is not None and genotypes.resolve(name)[1].space == config.space.name else None


@dataclass
class PassMeter:
    """Measures each network once, although several rows have it."""

    tell: Callable[[str], None]
    lines: dict[Hashable, PassTime] = field(default_factory=dict)

    def of_searcher(self, searcher: Searcher) -> PassTime:
        """Return seconds per pass of a learner in its present stage."""
        space, method = searcher.relaxed.space, searcher.relaxed.method.name
        # How many classes there are matters to the classifier alone, which is a small part of the network.
        size: Space = replace(space, images=replace(space.images, classes=_CLASSES))  # type: ignore[type-var]
        convolutions = sum(tensor.numel() for tensor in searcher.learner.w.values() if tensor.dim() == 4)
        words = f"the supernet of {method} with {getattr(space, 'cells', '')} cells, {_pixels(space.images.shape)}"
        return self._line((method, size, convolutions), words, lambda: timing.pass_time_of(searcher))

    def of_trainee(self, trainee: Trainee) -> PassTime:
        """Return seconds per pass of a network in training."""
        images = trainee.design.images
        design, cell = (
            replace(trainee.design, images=replace(images, classes=_CLASSES)),
            genotypes.dumps(trainee.genotype),
        )
        words = f"a network of {getattr(design, 'cells', '')} cells, {_pixels(images.shape)}"
        return self._line((design, cell), words, lambda: course.pass_time_of(trainee))

    def _line(self, key: Hashable, words: str, measure: Callable[[], PassTime]) -> PassTime:
        if key not in self.lines:
            self.tell(words)
            self.lines[key] = measure()
        return self.lines[key]


def _pixels(shape: tuple[int, int, int]) -> str:
    return f"{shape[1]}x{shape[2]} pixels"


def _key(config: Config, identity: Mapping[str, Any]) -> str:
    """Return the key of a time: the run, and the machine with its device as far as a run records them."""
    with machine(config.run) as device:
        now = Environment.current(kernels.describe(kernels.current()), device=describe_device(device))
    about = [now.summary(), cores(), __version__]
    return hashlib.sha256(json.dumps([about, identity], sort_keys=True).encode()).hexdigest()[:16]


def _kept(place: Path) -> dict[str, float]:
    """Read kept times; a file that is damaged counts as none."""
    try:
        document = json.loads(read_regular(place, _LARGEST))
        times = dict(document["seconds"]) if document["schema"] == _SCHEMA else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    sound = {key: value for key, value in times.items() if isinstance(value, float) and 0 < value < math.inf}
    return sound if len(sound) == len(times) else {}


def _keep(place: Path, times: Mapping[str, float]) -> None:
    """Write times; where that is not possible they are measured again the next time."""
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps({"schema": _SCHEMA, "seconds": dict(times)}, indent=1) + "\n")
