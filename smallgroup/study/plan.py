"""From a study to its runs: every row at every point of the grid, for every seed; what two rows share is run once."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from smallgroup.config import Config, overlaid, resolve
from smallgroup.study.file import Row, Study, keys_of

_DIGITS = 16


@dataclass(frozen=True)
class Run:
    """A search and the trainings of what it finds; known by the hash of all they depend on."""

    config: Config
    trainings: tuple[Config, ...] = ()

    @cached_property
    def key(self) -> str:
        """The name of its folder."""
        return _hash([self.config.of_search(), *(config.to_dict() for config in self.trainings)])

    @cached_property
    def kind(self) -> str:
        """The same for all seeds: such runs take the same time."""
        plain = [self.config.of_search(), *(config.to_dict() for config in self.trainings)]
        return _hash([{**keys, "seed": None} for keys in plain])


@dataclass(frozen=True)
class Line:
    """A row of the study at a point of its grid: a line of the table."""

    row: Row
    point: Mapping[str, Any]
    runs: Mapping[int, Run]
    """By seed; none for a baseline."""

    @property
    def name(self) -> str:
        """Where it stands, and what it is."""
        place = ", ".join(f"{key.rpartition('.')[2]} = {value}" for key, value in self.point.items())
        return f"{place}: {self.row.name}" if place else self.row.name


@dataclass(frozen=True)
class Plan:
    """All lines of a study."""

    name: str
    study: Study
    lines: tuple[Line, ...]
    only: str = ""
    """What their names contain."""

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Each once, seed after seed: when a study is stopped early, whole seeds are there to be compared."""
        found: dict[str, Run] = {}
        for seed in self.study.seeds:
            for line in self.lines:
                if seed in line.runs:
                    found.setdefault(line.runs[seed].key, line.runs[seed])
        return tuple(found.values())

    @property
    def hash(self) -> str:
        """Of everything that the table depends on."""
        return _hash([self.study.model_dump(mode="json"), *(run.key for run in self.runs)])


def planned(name: str, study: Study, only: str = "") -> Plan:
    """The lines whose names contain `only`; every config is resolved, so that a bad one is refused at once."""
    lines = []
    for values in product(*study.grid.values()):
        point = dict(zip(study.grid, values, strict=True))
        for row in study.rows:
            line = Line(row, point, {} if row.baseline else {s: _run(study, point, row, s) for s in study.seeds})
            if only in line.name:
                lines.append(line)
    if not lines:
        raise ValueError(f"there must be a row with {only[:60]!r} in its name, but there is none")
    return Plan(name, study, tuple(lines), only)


def _run(study: Study, point: Mapping[str, Any], row: Row, seed: int) -> Run:
    keys = keys_of(study, point, row, seed)
    config = resolve(keys)
    if "train" not in study.phases:
        return Run(config)
    # What is trained may be another dataset: then the recipe has its own to say about it.
    after = resolve(overlaid(overlaid(keys, row.train), study.over)) if row.train else config
    seeds = [seed + number * RETRAINING for number in range(study.retrainings)]
    return Run(config, tuple(after.model_copy(update={"seed": own}) for own in seeds))


RETRAINING = 100_000
"""Between the seeds of two trainings of one cell."""


def _hash(plain: object) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
