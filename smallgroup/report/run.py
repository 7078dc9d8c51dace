"""A run's folder, read with distrust: what is there and can be used; what cannot is said, and left out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from smallgroup.data.errors import reason
from smallgroup.phases.search.config import ANSWERS, AnswerRule
from smallgroup.phases.search.place import GALLERY
from smallgroup.phases.training.place import MISTAKES
from smallgroup.runner import current, read_rows
from smallgroup.runner.lock import held
from smallgroup.runner.place import FACTS, METRICS, TIMES
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.files import NotRegularError, read_regular
from smallgroup.runtime.text import shown
from smallgroup.spaces import SPACES
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import FILE, from_plain, read

RESULT = "result.json"
LARGEST = 200_000_000
"""Bytes of metrics that are read; a search of the paper's size has a fortieth of it."""
_LARGEST_NUMBER = 1e300
"""Beyond it a number cannot be drawn; no infinity and no NaN is below it."""
BASELINES = {"resnet": "A ResNet", "random": "A random cell", "all-3x3": "The all-3x3 cell"}
"""Trainings beside that of the network found, by their folders within that of a whole run."""
PARTS = ("training", *BASELINES)
"""Folders of trainings within that of a whole run."""
VERDICT = "verdict.json"

RunKind = Literal["search", "training"]
RunState = Literal["finished", "running", "stopped"]


@dataclass(frozen=True)
class MetricsRow:
    """A line of metrics.jsonl, with its number."""

    line: int
    """The number of the line in the file, from 1."""
    values: Mapping[str, Any]

    @property
    def epoch(self) -> int:
        """Counted from 1, for people; the file counts from 0."""
        return int(self.values["epoch"]) + 1

    @property
    def learner(self) -> int:
        """Return the number of the learner; 0 where there is one only."""
        return whole(self.values.get("learner")) or 0

    def number(self, *path: str) -> float | None:
        """Return a number, or None if there is no usable one."""
        return number_at(self.values, *path)

    def numbers(self, *path: str) -> list[float] | None:
        """Return a list of numbers of this line, or None."""
        value = at(self.values, *path)
        if not isinstance(value, list) or not value:
            return None
        if len(value) > MOST["classes"]:
            return None
        # As `finite`, written out: there may be a number for each of thousands of classes in every line.
        found = [float(one) for one in value if type(one) in (int, float) and abs(one) < _LARGEST_NUMBER]
        return found if len(found) == len(value) else None


@dataclass(frozen=True)
class CountedNetwork:
    """The network that a cell makes, and what it is counted in."""

    parameters: int
    multiply_adds: int
    words: str


@dataclass(frozen=True)
class SearchSteps:
    """Counts of the steps of a search."""

    all: int
    v_alone: int
    """Those in which V alone is trained, and W waits."""


@dataclass(frozen=True)
class Given:
    """The facts about a run that a reader of configs passes to code that reads none."""

    config: Mapping[str, Any] = field(default_factory=dict)
    departures: Mapping[str, Any] = field(default_factory=dict)
    """Keys whose values differ from the recipe."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """What the recipe says, of these keys and all others."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    size: CountedNetwork | None = None
    steps: SearchSteps | None = None
    """None where it is no search, or their number is not known."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """All that a report knows of a run."""

    folder: Path
    kind: RunKind
    state: RunState
    rows: tuple[MetricsRow, ...]
    result: Mapping[str, Any]
    facts: Mapping[str, Any]
    times: tuple[Mapping[str, Any], ...]
    gallery: Mapping[str, Any]
    given: Given
    parts: Mapping[str, "Run"]
    problems: tuple[str, ...]
    label: str = ""
    """What it is called beside runs whose folders have the same name."""
    taken_back: tuple[MetricsRow, ...] = ()
    """Rows of epochs that a method took back."""
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    """Misclassified test images of a training."""
    front: str = ""
    """What stands before the names of its files where it is a part of another run: its folder."""

    @property
    def name(self) -> str:
        """Return the name of the run's folder."""
        return self.label or self.folder.name or self.folder.absolute().name or str(self.folder)

    @cached_property
    def learners(self) -> list[int]:
        """Who has rows; before there are any, those of the config, or of the result."""
        known = sorted({row.learner for row in self.rows})
        for named in (self.given.config.get("learners"), self.result.get("group")):
            if not known and self.kind == "search" and isinstance(named, list):
                known = list(range(min(len(named), MOST["learners"])))
        return known

    @cached_property
    def epochs(self) -> list[int]:
        """Return the epochs that have rows."""
        return sorted({row.epoch for row in self.rows})

    @cached_property
    def _by_place(self) -> dict[tuple[int, int], MetricsRow]:
        return {(row.learner, row.epoch): row for row in self.rows}

    @cached_property
    def rebuilds(self) -> list[int]:
        """Epochs at whose end a learner's network was rebuilt: the next one measures another network."""
        return sorted({row.epoch for row in self.rows if row.values.get("rebuilt")})

    @property
    def peak_memory(self) -> tuple[float | None, str]:
        """In MB, and which file says so. A run that was resumed had several processes; the largest counts."""
        told = [(number_at(self.result, "peak_memory_mb"), RESULT)]
        told += [(number_at(line, "peak_memory_mb"), TIMES) for line in self.times]
        known = [(memory, file) for memory, file in told if memory is not None]
        return max(known, key=lambda one: one[0], default=(None, RESULT))

    def row(self, learner: int, epoch: int) -> MetricsRow | None:
        """Return the line of a learner and an epoch."""
        return self._by_place.get((learner, epoch))

    @cached_property
    def classes(self) -> list[str]:
        """Their names; numbers, where names are not known."""
        names = self.facts.get("classes")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
        tables = [row.numbers("w_recognised") or row.numbers("v_recognised") or [] for row in self.rows[:1]]
        return [f"class {c}" for c in range(len(tables[0]))] if tables else []

    @property
    def retained(self) -> int | None:
        """Who was kept; while the run goes, who would be."""
        kept = whole(self.result.get("retained"))
        if kept is not None and kept < MOST["learners"]:
            return kept
        last = [(row.number("w_validation_loss"), row.learner) for row in self._last()]
        known = [(loss, k) for loss, k in last if loss is not None]
        return min(known)[1] if known else None

    @cached_property
    def _verdicts(self) -> list[Mapping[str, Any]]:
        """What a whole run says of its baselines; none before it is over."""
        said = _document(self.folder / VERDICT, []).get("verdicts") if (self.folder / VERDICT).exists() else None
        return [one for one in said[: len(BASELINES)] if isinstance(one, Mapping)] if isinstance(said, list) else []

    @property
    def verdicts(self) -> list[str]:
        """How the network found compares with each baseline, in sentences."""
        return [text for one in self._verdicts if isinstance(text := one.get("sentence"), str)]

    @property
    def compared(self) -> dict[str, str]:
        """By baseline, what the comparison with it came to."""
        return {str(one.get("baseline")): str(one.get("verdict")) for one in self._verdicts}

    @property
    def rule(self) -> AnswerRule:
        """By which rule the search answers; results of earlier versions do not say, and have the retained learner's."""
        told = at(self.result, "answer", "rule") if self.result else at(self.given.config, "search", "answer")
        return next((rule for rule in ANSWERS if rule == told), "retained")

    @property
    def answering(self) -> int | None:
        """The learner whose cell is the answer; None where it is that of all together, or not known yet."""
        if not self.result or self.rule == "retained":
            return self.retained
        learner = whole(at(self.result, "answer", "learner"))
        return learner if learner is not None and learner < MOST["learners"] else None

    @property
    def whose(self) -> str:
        """Whose cell the answer is, in words."""
        return self.rule if self.answering is None else f"learner {self.answering}"

    def _last(self) -> list[MetricsRow]:
        return [row for row in self.rows if self.epochs and row.epoch == self.epochs[-1]]

    @property
    def dataset(self) -> str:
        """Return the name of the dataset."""
        named = (self.result.get("dataset"), self.facts.get("dataset"), at(self.given.config, "data", "dataset"))
        return str(next((name for name in named if name), ""))

    @cached_property
    def missing(self) -> list[str]:
        """Return the files that such a run writes and that are missing; none for a run in progress."""
        wanted = [FACTS, METRICS, TIMES]
        taught = any(at(row.values, "pseudo_labels", "agreed") is not None for row in self.rows)
        wanted += [GALLERY] * taught + [FILE] * (self.kind == "search" and bool(self.result))
        return [] if self.state == "running" else [name for name in wanted if not (self.folder / name).exists()]

    def space(self, learner: int) -> str:
        """Return the name of a learner's space."""
        own = at(self.facts, "learners")
        if isinstance(own, list) and learner < len(own) and isinstance(at(own[learner], "space"), str):
            return str(own[learner]["space"])
        return str(self.result.get("space") or at(self.given.config, "space", "name") or "")

    def method(self, learner: int) -> str:
        """Return the method of a learner, as the config has it."""
        own = at(self.given.config, "learners")
        if isinstance(own, list) and learner < len(own):
            return str(at(own[learner], "method") or "")
        return ""

    def genotype(self, row: MetricsRow) -> Genotype | None:
        """Return the cell that a row's scores derive."""
        return _genotype(self.space(row.learner), row.values.get("genotype"))

    @cached_property
    def cell(self) -> Genotype | None:
        """The cell of the run: of its result, else of its file, else of the best learner so far."""
        if self.result:
            found = _genotype(self.space(self.answering or 0), self.result.get("genotype"))
            if found is not None:
                return found
        try:
            return read(self.folder / FILE, links=False)[0]
        except (ValueError, OSError):
            pass
        best = next((row for row in self._last() if row.learner == self.retained), None)
        return None if best is None else self.genotype(best)


def read_run(folder: Path, given: Given | None = None, parts: Mapping[str, Run] | None = None) -> Run:
    """Read a run's folder; `parts` are the trainings within it."""
    problems: list[str] = [*(given.problems if given else ())]
    lines = [
        MetricsRow(line, values) for line, values in _lines(folder / METRICS, problems) if _counts(values, problems)
    ]
    places = current([row.values for row in lines])
    rows = tuple(lines[place] for place in places)
    facts = _document(folder / FACTS, problems)
    if isinstance(names := facts.get("classes"), list) and len(names) > MOST["classes"]:
        problems.append(f"{FACTS} must name at most {MOST['classes']:,} classes, but it names {len(names):,}")
        facts = {key: value for key, value in facts.items() if key != "classes"}
    kind: RunKind = (
        "training" if facts.get("kind") == "training" or any("train_error" in r.values for r in rows) else "search"
    )
    result = _document(folder / RESULT, problems)
    going = held(folder)
    return Run(
        folder=folder,
        kind=kind,
        state="running" if going else "finished" if result else "stopped",
        rows=rows,
        taken_back=tuple(row for place, row in enumerate(lines) if place not in set(places)),
        result=result,
        facts=facts,
        times=tuple(values for _, values in _lines(folder / TIMES, problems)),
        gallery=_document(folder / GALLERY, problems),
        mistakes=_document(folder / MISTAKES, problems),
        given=given or Given(),
        parts=parts or {},
        problems=tuple(problems),
    )


def told_apart(runs: Sequence[Run]) -> list[Run]:
    """Return the same runs, each named by the shortest unique end of its path."""
    paths = [run.folder.absolute().parts for run in runs]

    def label(own: tuple[str, ...]) -> str:
        for size in range(1, len(own)):
            if all(other == own or other[-size:] != own[-size:] for other in paths):
                return "/".join(own[-size:])
        return ""

    return [replace(run, label=label(own)) for run, own in zip(runs, paths, strict=True)]


def at(value: object, *path: str) -> Any:  # noqa: ANN401 -- what a file holds
    """Return the value below some keys; None if there is none."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def section_at(value: object, *path: str) -> dict[str, Any]:
    """Return the object below some keys; an empty one if there is none."""
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def finite(value: object) -> float | None:
    """Return a number if it can be drawn, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _LARGEST_NUMBER else None


def whole(value: object) -> int | None:
    """Return a whole number from 0 on, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def number_at(value: object, *path: str) -> float | None:
    """Return the number below some keys of a document, or None."""
    return finite(at(value, *path))


def table_at(row: MetricsRow, kind: str) -> Sequence[Sequence[float | None]] | None:
    """Return the scores of a kind of cell in a row."""
    table = at(row.values, "scores", kind)
    if not isinstance(table, list) or not all(isinstance(line, list) for line in table):
        return None
    return [[finite(value) for value in line] for line in table]


def _genotype(space: str, plain: object) -> Genotype | None:
    for name in dict.fromkeys([space, *SPACES]):
        try:
            return from_plain(name, plain)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
    return None


def _counts(values: Mapping[str, Any], problems: list[str]) -> bool:
    """Return whether a row has a valid epoch and learner."""
    learner = values.get("learner", 0)
    epoch = whole(values.get("epoch"))
    good = epoch is not None and epoch < MOST["epochs"] and whole(learner) is not None
    good = good and int(learner) < MOST["learners"]
    if not good:
        problems.append(f"a line of {METRICS} has no epoch or learner that can be used, and is left out")
    return good


def _lines(path: Path, problems: list[str]) -> list[tuple[int, dict[str, Any]]]:
    """Return the complete lines of a file with their numbers, up to the first incomplete one."""
    found: list[tuple[int, dict[str, Any]]] = []
    try:
        if path.exists() and path.stat().st_size > LARGEST:
            problems.append(f"{path.name} must have at most {LARGEST:,} bytes to be drawn, but it has more")
            return []
        for line, row in enumerate(read_rows(path), start=1):
            found.append((line, row))
    except NotRegularError as error:
        problems.append(f"{path.name} cannot be used: {shown(error)}")
    except (ValueError, RecursionError):
        problems.append(f"line {len(found) + 1} of {path.name} cannot be read; it and those after it are left out")
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {reason(error)}")
    return found


def _document(path: Path, problems: list[str]) -> dict[str, Any]:
    """Read a file that holds a JSON object; return an empty one if there is none."""
    try:
        if not path.exists():
            return {}
        plain = json.loads(read_regular(path))
        if not isinstance(plain, dict):
            raise ValueError("it is not a JSON object")
        return plain
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} cannot be used: {shown(reason(error))}")
        return {}
