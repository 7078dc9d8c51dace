"""From a study to its runs: every row at every point of the grid, for every seed; what two rows share is run once."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from smallgroup.config import Config, overlaid, resolve
from smallgroup.migrations import study_as_before
from smallgroup.runtime.checks import suggestion
from smallgroup.runtime.text import shown
from smallgroup.study.file import LARGEST_SEED, Study, StudyRow, keys_of, points_of

_DIGITS = 16


@dataclass(frozen=True)
class PlannedRun:
    """A search, or the training of what one finds; known by the hash of all it depends on."""

    config: Config
    trains: "PlannedRun | None" = None
    """For a training, the search whose cell it trains."""
    labelers: "PlannedRun | None" = None
    """For a search, the search whose learners make its labels; None: it makes its own."""

    @property
    def phase(self) -> Literal["search", "training"]:
        """Return which of the paper's two phases the run is."""
        return "search" if self.trains is None else "training"

    @property
    def needs(self) -> tuple["PlannedRun", ...]:
        """Return the runs that must be finished first."""
        return tuple(run for run in (self.trains, self.labelers) if run is not None)

    @cached_property
    def key(self) -> str:
        """Return the hash that names the folder of the run."""
        return _hash([self._plain, *(run.key for run in self.needs)])

    @cached_property
    def kind(self) -> str:
        """The same for all seeds: such runs take the same time."""
        data = {**self._plain["data"], "split_seed": None}
        return _hash([{**self._plain, "seed": None, "data": data}, *(run.kind for run in self.needs)])

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return self.config.of_search() if self.trains is None else self.config.of_training()


@dataclass(frozen=True)
class Runs:
    """The runs that a row of the table needs for a seed."""

    search: PlannedRun
    trainings: tuple[PlannedRun, ...] = ()

    @property
    def all(self) -> tuple[PlannedRun, ...]:
        """In the order of their needs."""
        return (*self.search.needs, self.search, *self.trainings)


@dataclass(frozen=True)
class Line:
    """A row of the study at a point of its grid: a line of the table."""

    row: StudyRow
    point: Mapping[str, Any]
    runs: Mapping[int, Runs]
    """Runs by seed; none for a baseline."""

    @property
    def name(self) -> str:
        """Where it stands, and what it is."""
        place = self.place()
        return f"{place}: {self.row.name}" if place else self.row.name

    def place(self, without: str | None = None) -> str:
        """Return the point of the grid in words; without an axis, if one is named."""
        names = short_names(self.point)
        return ", ".join(f"{names[key]} = {value}" for key, value in self.point.items() if key != without)


def short_names(keys: Collection[str]) -> dict[str, str]:
    """Return the last parts of keys with dots, as many as tell each from the others."""
    found = {}
    for key in keys:
        parts = key.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        alone = (end for end in ends if sum(f".{other}".endswith(f".{end}") for other in keys) == 1)
        found[key] = next(alone, key)
    return found


@dataclass(frozen=True)
class Plan:
    """The rows of a study at every point of its grid, with their runs."""

    name: str
    study: Study
    lines: tuple[Line, ...]
    only: tuple[str, ...] = ()
    """Texts of which their names contain one; none: all lines."""

    @cached_property
    def runs(self) -> tuple[PlannedRun, ...]:
        """Return every run once, seed after seed: a study that is stopped early then has whole seeds to compare."""
        found: dict[str, PlannedRun] = {}
        for seed in self.study.seeds:
            for line in self.lines:
                for run in line.runs[seed].all if seed in line.runs else ():
                    found.setdefault(run.key, run)
        return tuple(found.values())

    @property
    def hash(self) -> str:
        """Return the hash of everything that the table depends on."""
        return _hash([study_as_before(self.study.model_dump(mode="json")), *(run.key for run in self.runs)])


def planned(name: str, study: Study, *only: str) -> Plan:
    """Plan the lines of a study, or those whose names contain one of the texts `only`.

    Every config is resolved, so that a bad one is refused at once.
    """
    lines = [Line(row, point, {}) for point in points_of(study) for row in study.rows]
    for text in only:
        if not any(text in line.name for line in lines):
            hint = suggestion(text, [line.row.name for line in lines])
            raise ValueError(f"there must be a row with {text[:60]!r} in its name, but there is none{hint}")
    lines = [line for line in lines if not only or any(text in line.name for text in only)]
    runs = [{s: _runs(study, line.point, line.row, s) for s in study.seeds if not line.row.baseline} for line in lines]
    return Plan(name, study, tuple(replace(line, runs=own) for line, own in zip(lines, runs, strict=True)), only)


def _runs(study: Study, point: Mapping[str, Any], row: StudyRow, seed: int) -> Runs:
    keys = keys_of(study, point, row, seed)
    config = resolve(keys)
    if config.search.labelers is not None:  # a path does not say who lies there, and a run is known by what it is
        raise ValueError(
            "in a study, the search that labels is given as `labelers` of a row, but search.labelers is "
            f"{shown(config.search.labelers)}"
        )
    if config.run.threads != 1:  # then several workers would be in one another's way
        raise ValueError(f"runs of a study have one thread each, but run.threads is {config.run.threads}")
    _check_teaching(config, row.name)
    if row.labelers is None:
        search = PlannedRun(_of_nobody_taught(config))
    else:
        search = PlannedRun(
            config, labelers=_labelers(resolve(keys_of(study, point, row, seed, row.labelers)), config, row)
        )
    if "train" not in study.phases:
        return Runs(search)
    # What is trained may be another dataset: then the recipe has its own to say about it.
    after = resolve(overlaid(overlaid(keys, row.train), study.over)) if row.train else config
    return Runs(search, tuple(PlannedRun(_retraining(after, i), trains=search) for i in range(study.retrainings)))


def _labelers(config: Config, pupils: Config, row: StudyRow) -> PlannedRun:
    """Return the search that is run before that of a row, to make its labels."""
    _check_teaching(config, f"labelers of {row.name}")
    if len(config.learners) != len(pupils.learners):
        raise ValueError(
            f"labelers must be as many as learners, but in {row.name!r} they are {len(config.learners)} and "
            f"{len(pupils.learners)}"
        )
    return PlannedRun(_of_nobody_taught(config))


def _of_nobody_taught(config: Config) -> Config:
    """Reset the keys of teaching where no learner is taught, so that equal searches have one hash and run once."""
    if config.teaching.active:
        return config
    search = config.search.model_copy(update={"lam": 0.0, "targets": "peers"})
    return config.model_copy(update={"search": search})


def _check_teaching(config: Config, name: str) -> None:
    """Refuse switches of teaching that exclude one another."""
    try:
        _ = config.teaching
    except ValueError as error:
        raise ValueError(f"{error}, in {name!r}") from None


def _retraining(config: Config, number: int) -> Config:
    """Return the same training with another seed on the same images: those held out in the search stay held out."""
    data, seed = config.data, config.seed
    split_seed = data.split_seed if data.split_seed is not None or not data.held_out else seed
    return config.model_copy(
        update={"seed": seed + number * RETRAINING, "data": data.model_copy(update={"split_seed": split_seed})}
    )


RETRAINING = LARGEST_SEED + 1
"""Between the seeds of two trainings of one cell."""


def _hash(plain: object) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
