"""A study as a file: what is run, what its table shows, and which number it stands or falls by."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from smallgroup import recipes
from smallgroup.config import Config, changed, load, overlaid, resolve, seeds_of
from smallgroup.runtime.checks import check_choice, nearest
from smallgroup.runtime.section import WRONG_KIND, Section
from smallgroup.study.controls import Controls, with_controls
from smallgroup.study.folder import RUNS
from smallgroup.study.measures import MEASURES
from smallgroup.study.names import built_in, check_study, keys_of_built_in

MOST_RUNS = 10_000
"""Of a study: what a file of a few lines may ask for."""
LARGEST_SEED = 99_999
"""Above lie those of further trainings of one cell."""
StudyPhase = Literal["search", "train"]
Take = Literal["retained", "first", "mean"]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"names and titles must be one line of printable characters, but got {text[:60]!r}")
    return text


OneLine = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_one_line)]


def _no_key_of_the_study(keys: dict[str, Any]) -> dict[str, Any]:
    for key in ("seed", "recipe"):
        if key in keys:
            raise ValueError(f"seeds and recipe are keys of the study, for all its runs, but {key} is given here")
    return keys


Keys = Annotated[dict[str, Any], AfterValidator(_no_key_of_the_study)]
"""Keys of a config; keys that belong to the study as a whole are refused."""


class BaselineRow(Section):
    """A row without a search: cells picked from a table of accuracies, or by a method that never saw an image."""

    kind: Literal["random", "evolution", "local", "reinforce", "untrained"]
    lookups: int = Field(default=100, ge=1, le=15_625)
    """Accuracies that all but `untrained` may look up, in a column of a table other than the one they are scored by; of
    a surrogate, which has one column alone, in that."""

    @property
    def paired(self) -> bool:
        """Whether a seed means what it means to a search: looked-up cells come from no split and no initial weights."""
        return self.kind == "untrained"


class Where(Section):
    """Keys that hold at points of the grid alone."""

    at: dict[str, Any] = Field(min_length=1)
    """A value for each axis of the grid that is named."""
    config: Keys


class StudyRow(Section):
    """A row of the table, for each point of the grid."""

    name: OneLine
    config: Keys = Field(default_factory=dict)
    """Keys of a config above those of the study."""
    where: tuple[Where, ...] = ()
    """More of them, above those, at some points of the grid."""
    take: Take = "retained"
    """What counts: `retained`, the answer of the search (its cell; errors of W are those of the retained learner),
    `first`, the first learner (a search alone, as learners that do not teach do not meet, but what it cost is not
    known), or `mean`, that of all learners."""
    labelers: Keys | None = None
    """Keys, above those of the row, of a search that is carried out before: its learners make the labels, frozen."""
    train: Keys = Field(default_factory=dict)
    """Keys for the training alone: a cell may be trained on other images than it was searched on."""
    baseline: BaselineRow | None = None
    theirs: dict[str, str] = Field(default_factory=dict)
    """The paper's own numbers, by measure, for a table without a grid."""


class Claim(Section):
    """A claim to test: that one row is better than others."""

    says: OneLine
    """The claim in words, such as "teaching helps"."""
    row: str
    than: tuple[str, ...] = Field(min_length=1)
    """All of them: each is a comparison of its own."""
    measure: str | None = None
    """The measure; None: the primary one."""
    margin: float | None = Field(default=None, gt=0)
    """The smallest difference that matters: with one, rows are also tested for differing by less than that."""

    @model_serializer(mode="wrap")
    def _without_later_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the claim without later keys that have their earlier meaning, so that its hash stays the same."""
        later = ("measure", "margin")
        return {key: value for key, value in handler(self).items() if key not in later or value is not None}


class Figure(Section):
    """A figure that is written beside the table."""

    kind: Literal["curve", "course"]
    """The primary measure over an axis of the grid, or over the epochs of the searches."""
    axis: str | None = None

    @model_validator(mode="after")
    def _of_an_axis(self) -> "Figure":
        if (self.axis is None) != (self.kind == "course"):
            raise ValueError("a curve needs an axis of the grid, and a course has none")
        return self


class Study(Section):
    """The settings of a study: rows, grid, seeds, columns, claims and figures."""

    version: Literal[1] = 1
    title: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
    about: str = ""
    recipe: str = recipes.DEFAULT
    base: Keys = Field(default_factory=dict)
    """Keys of a config that all runs share."""
    by_recipe: dict[str, Keys] = Field(default_factory=dict)
    """More of them, above those, under a recipe."""
    over: Keys = Field(default_factory=dict)
    """Keys of a config above all others, those of rows included."""
    grid: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Values by key of a config: every row is there for every combination."""
    rows: tuple[StudyRow, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    phases: tuple[StudyPhase, ...] = ("search",)
    retrainings: int = Field(default=1, ge=1, le=100)
    """Trainings of each cell that a search finds."""
    columns: tuple[str, ...] = Field(min_length=1)
    primary: str
    """The measure that decides, named before the runs."""
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        """Return all measures that the table shows, in its order."""
        claimed = (claim.measure for claim in self.claims if claim.measure is not None)
        return tuple(dict.fromkeys((*self.columns, self.primary, *claimed)))

    @property
    def takes_means(self) -> bool:
        """Return whether every row counts the mean of all learners."""
        return all(row.take == "mean" for row in self.rows)

    @field_validator("recipe")
    @classmethod
    def _known_recipe(cls, name: str) -> str:
        check_choice("recipe", name, recipes.names())
        return name

    @field_validator("by_recipe")
    @classmethod
    def _known_recipes(cls, given: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name in given:
            check_choice("a recipe in by_recipe", name, recipes.names())
        return given

    @field_validator("seeds", mode="before")
    @classmethod
    def _seeds(cls, given: Any) -> Any:  # noqa: ANN401 -- what a user wrote
        return seeds_of(str(given)) if isinstance(given, str | int) else given

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
            raise ValueError(f"seeds must be different numbers from 0 to {LARGEST_SEED:,}, but got {str(seeds)[:60]}")
        return seeds

    @model_validator(mode="after")
    def _measurable(self) -> "Study":
        shown = self.measures
        for measure in (*shown, *(m for row in self.rows for m in row.theirs)):
            check_choice("a measure", measure, tuple(MEASURES))
            if MEASURES[measure].phase not in self.phases:
                raise ValueError(f"{measure} is a measure of phase {MEASURES[measure].phase}, which is not in phases")
        if self.phases not in (("search",), ("search", "train")):
            raise ValueError(f"phases must be [search] or [search, train], but got [{', '.join(self.phases)}]")
        for row in self.rows:
            if row.train and "train" not in self.phases:
                raise ValueError(f"train is for phase train, which is not in phases, but {row.name!r} has it")
            if row.theirs and self.grid:
                raise ValueError(f"numbers of the paper need a table without a grid, but {row.name!r} has theirs")
        of_trainings = [measure for measure in shown if MEASURES[measure].phase == "train"]
        for row in self.rows:
            if row.take != "retained" and of_trainings:
                raise ValueError(
                    "only the cell of the answer is trained, so a row may not take another one beside "
                    f"{of_trainings[0]}, but {row.name!r} takes {row.take}"
                )
        if self.claims and MEASURES[self.primary].larger_is_better is None:
            raise ValueError(f"claims need a primary measure of which more or less is better, not {self.primary}")
        for claim in self.claims:
            if claim.measure is not None and MEASURES[claim.measure].larger_is_better is None:
                raise ValueError(f"a claim needs a measure of which more or less is better, not {claim.measure}")
        return self

    @model_validator(mode="after")
    def _grid_of_configs(self) -> "Study":
        _no_key_of_the_study(self.grid)
        for axis, values in self.grid.items():
            for text in (axis, *map(str, values)):  # they are in the names of rows
                _one_line(text)
            if not values or any(value in values[:i] for i, value in enumerate(values)):
                raise ValueError(f"an axis of the grid must have values, each once, but {axis[:60]} has {values}"[:200])
        count = prod(len(values) for values in self.grid.values()) * len(self.rows) * len(self.seeds)
        if count > MOST_RUNS:
            raise ValueError(f"grid, rows and seeds must make at most {MOST_RUNS:,} runs, but they make {count:,}")
        return self

    @model_validator(mode="after")
    def _names_of_what_there_is(self) -> "Study":
        names = [row.name for row in self.rows]
        if len(set(names)) != len(names):
            raise ValueError("rows must have different names")
        for claim in self.claims:
            for name in (claim.row, *claim.than):
                check_choice("a row of a claim", name, tuple(names))
            looked_up = {row.name for row in self.rows if row.baseline is not None and not row.baseline.paired}
            for name in looked_up & {claim.row, *claim.than} if claim.margin is not None else ():
                raise ValueError(f"a claim with a margin compares rows that are paired by seed, but {name!r} is not")
        for figure in self.figures:
            if figure.axis is not None:
                check_choice("the axis of a figure", figure.axis, tuple(self.grid))
        for axis, value in (pair for row in self.rows for where in row.where for pair in where.at.items()):
            check_choice("an axis in where", axis, tuple(self.grid))
            if value not in self.grid[axis]:
                raise ValueError(f"a place in where must lie on its axis, but {axis} has no {str(value)[:60]}")
        return self


def open_study(name: str, changes: Mapping[str, Any] | None = None) -> tuple[str, Study]:
    """Open a built-in study by name, or one from a file; return it and its short name. `changes` override its keys."""
    path, keys = Path(name), dict[str, Any]()
    if name in built_in():
        keys = keys_of_built_in(name)
    elif path.is_file():
        keys, name = load(path), path.stem
        if name in (RUNS, ".."):
            raise ValueError(f"a study has a folder of its name beside {RUNS}, but {path.name} would make it {name}")
    else:
        check_study(name)
    return name, parsed({**keys, **(changes or {})})


def opened(
    name: str, *, recipe: str | None = None, seeds: str | None = None, changes: Sequence[str] = ()
) -> tuple[str, Study]:
    """Open a study by name or file, with another recipe, other seeds or changes such as `search.epochs=3`."""
    found, study = open_study(name)
    above: dict[str, Any] = {} if recipe is None else {"recipe": recipe}
    if seeds is not None:
        above["seeds"] = seeds
    if changes:
        above["over"] = changed(study.over, changes)
    # Opened again, because the rows that `controls` stand for depend on all of it.
    return open_study(name, above) if above else (found, study)


def _keys_beside(place: tuple[int | str, ...]) -> list[str]:
    """Return the keys that a study has in the section of an unknown key; none in sections within rows."""
    within: dict[object, type[Section]] = {"rows": StudyRow, "claims": Claim, "figures": Figure}
    model = Study if len(place) == 1 else within.get(place[0]) if len(place) == 3 else None
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def parsed(keys: Mapping[str, Any]) -> Study:
    """Parse a study, or raise one sentence that says what is wrong with it."""
    try:
        return Study.model_validate(with_controls(keys, partial(_configs, keys)))
    except ValidationError as error:
        first = error.errors()[0]
        section = ["controls"] if error.title == Controls.__name__ else []  # they are read before the rest
        place = ".".join([*section, *map(str, first["loc"])]) or "the study"
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden" and not section and (known := _keys_beside(first["loc"])):
            near = nearest(str(first["loc"][-1]), known, likeness=0)
            raise ValueError(f"a study has no key {place[:80]!r}; the nearest is {near}") from None
        between = " " if first["type"] == WRONG_KIND else ": "
        raise ValueError(f"{place}{between}{said}"[:300]) from None


def _configs(keys: Mapping[str, Any], row: Mapping[str, Any]) -> list[tuple[dict[str, Any], Config]]:
    """Return the config of a row of a study at every point of the grid."""
    study = Study.model_validate({**keys, "rows": [row], "claims": []})
    return [(point, resolve(keys_of(study, point, study.rows[0], study.seeds[0]))) for point in points_of(study)]


def points_of(study: Study) -> Iterator[dict[str, Any]]:
    """Yield the points of a study's grid; a single one without axes."""
    for values in product(*study.grid.values()):
        yield dict(zip(study.grid, values, strict=True))


def keys_of(
    study: Study, point: Mapping[str, Any], row: StudyRow, seed: int, own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the config keys of a run; `own` override those of the row."""
    keys: dict[str, Any] = {"recipe": study.recipe, "run": {"threads": 1}}
    by_recipe = study.by_recipe.get(study.recipe, {})
    here = [one.config for one in row.where if one.at.items() <= point.items()]
    for above in (study.base, by_recipe, nested(point), row.config, *here, own or {}, study.over, {"seed": seed}):
        keys = overlaid(keys, above)
    return keys


def nested(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return sections from keys with dots."""
    result: dict[str, Any] = {}
    for key, value in point.items():
        *rooms, last = key.split(".")
        place = result
        for room in rooms:
            place = place.setdefault(room, {})
            if not isinstance(place, dict):
                raise ValueError(f"an axis of the grid may not lie within another one, but {key[:60]} does")
        place[last] = value
    return result
