"""Ground truth: how well every cell does once it is trained, from a table found under the data root.

It never influences a search: it is looked at when a search is over, or to draw its course.
"""

import csv
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from smallgroup.spaces.ground_truth import GroundTruth, Known, Standing
from smallgroup.spaces.nas_bench_201.cell import Cell, every_cell
from smallgroup.spaces.nas_bench_201.cost import benchmark_multiply_adds
from smallgroup.spaces.nas_bench_201.effects import AdditiveFit, additive_fit, score_correlation

SIMILAR_COST = 0.1
"""Cells whose multiply-adds differ by at most this share of a cell's own are its peers."""
FEWEST_PEERS = 100
"""Where so many are not that near, the nearest ones are taken."""


class Truth(GroundTruth):
    """Accuracies of all 15,625 cells, by column of the table (`cifar10`, `cifar100`, ...).

    A percentile at cost is one among peers: the distinct cells whose multiply-adds in the benchmark's network are
    within 10 % of a cell's own, or the 100 nearest if there are fewer (and all that are as near as the last of them).
    Dead operations do not count. Cells that the benchmark counts as one may cost differently, because some compute a
    term once that others compute twice: a cell is compared at its own cost, and a peer counts once, at the nearest cost
    of its members. The costliest cell, six 3x3 convolutions, has none: all others are cheaper by more than 10 %.
    """

    name: ClassVar[str] = "nas-bench-201"
    space: ClassVar[str] = "nas-bench-201"
    about: ClassVar[str] = "accuracies of all 15,625 cells"

    columns: dict[str, dict[Cell, float]]
    """The accuracy of every cell, by dataset."""

    def __init__(self, columns: dict[str, dict[Cell, float]]) -> None:
        self.columns = columns
        self._classes: dict[str, dict[str, float]] = {}
        self._ranked: dict[str, list[float]] = {}
        self._peers: dict[tuple[str, int], list[float]] = {}
        self._fits: dict[str, AdditiveFit] = {}
        forms = _forms()
        for column, own in columns.items():
            members: defaultdict[str, list[float]] = defaultdict(list)
            for cell, accuracy in own.items():
                members[forms[cell]].append(accuracy)
            self._classes[column] = {form: fmean(values) for form, values in members.items()}
            self._ranked[column] = sorted(self._classes[column].values())

    @classmethod
    def find(cls, root: Path) -> "Truth | None":
        """Return the table under a data root, `nas-bench-201/*.csv`; None if there is none."""
        files = sorted((root / cls.name).glob("*.csv"))
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise ValueError(f"one NAS-Bench-201 table must lie in {files[0].parent}, but there are {names}")
        if not files:
            return None
        now = files[0].stat()
        return _kept(files[0], now.st_size, now.st_mtime_ns)

    @staticmethod
    def read(path: Path) -> "Truth":
        """Read a CSV with a column `architecture` and one or more of accuracies in percent, every cell exactly once."""
        try:
            columns = _columns(path)
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} must be a CSV file in UTF-8, but it is not: {error}") from None
        missing = next((cell for cell in _forms() if cell not in next(iter(columns.values()))), None)
        if missing is not None:
            raise ValueError(f"{path} must list all 15,625 cells, but {missing} is missing")
        return Truth(columns)

    def known(self, genotype: Cell) -> Known:
        """Return accuracies and percentiles, those at cost too."""
        at_cost = {column: self.standing(genotype, column).percentile_at_cost for column in self.columns}
        return {**super().known(genotype), "percentile_at_cost": at_cost}

    def accuracy(self, genotype: Cell, column: str) -> float:
        """Return the accuracy of a cell."""
        return self.columns[column][genotype]

    @classmethod
    def missing(cls, where: Path) -> str:
        """Say that there is no file."""
        return f"the accuracy table is not here: there is no CSV file in {where}"

    def standing(self, genotype: Cell, column: str) -> Standing:
        """Return accuracy and percentiles of a cell; members of one class have the same `percentile`."""
        if column not in self.columns:
            raise ValueError(f"column must be one of {', '.join(self.columns)}, but got {column!r}")
        value, peers = self._classes[column][genotype.form()], self._at_cost(column, _cost(genotype))
        at_cost = _percentile(value, peers) if len(peers) > 1 else None
        return Standing(self.accuracy(genotype, column), _percentile(value, self._ranked[column]), at_cost)

    def additive_fit(self, column: str) -> AdditiveFit:
        """Return what each operation on each edge is worth in a column; computed once."""
        if column not in self._fits:
            self._fits[column] = additive_fit(self.columns[column])
        return self._fits[column]

    def score_correlation(self, scores: Mapping[str, Any], column: str) -> float | None:
        """Return Spearman's correlation of the scores with the additive effects of operations."""
        return score_correlation(scores["cell"], self.additive_fit(column))

    def effects_in_words(self, column: str) -> str:
        """Say what the effects are, with R^2."""
        return (
            "Spearman, without none, centered on each edge, with additive effects of operations on accuracy in column "
            f"{column}, over all cells, R^2 = {self.additive_fit(column).r_squared:.3f}"
        )

    def _at_cost(self, column: str, cost: int) -> list[float]:
        """Return the accuracies of the distinct cells of about this cost, rising; a cell with no peer is alone."""
        if (column, cost) not in self._peers:
            ranked = sorted(self._classes[column][form] for form in _forms_near(cost))
            self._peers[column, cost] = ranked
        return self._peers[column, cost]


def _percentile(value: float, ranked: list[float]) -> float:
    return 100 * (bisect_left(ranked, value) + bisect_right(ranked, value)) / 2 / len(ranked)


@lru_cache(maxsize=1)
def _kept(path: Path, size: int, changed: int) -> Truth:  # noqa: ARG001
    """Return the table, read once per process, and again when the file changes."""
    return Truth.read(path)


@cache
def _forms() -> dict[Cell, str]:
    """Return the form of every cell; cells of one form are the same function."""
    return {cell: cell.form() for cell in every_cell()}


def _cost(cell: Cell) -> int:
    return benchmark_multiply_adds(cell.pruned())


@cache
def _costs() -> dict[str, set[int]]:
    """Return the costs of the members of each form."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for cell, form in _forms().items():
        found[form].add(_cost(cell))
    return found


def _forms_near(cost: int) -> list[str]:
    """Return the distinct cells with a member of about this cost, the cell that asks among them."""
    distances = {form: min(abs(own - cost) for own in costs) for form, costs in _costs().items()}
    near = [form for form, distance in distances.items() if distance <= SIMILAR_COST * cost]
    costliest = max(own for costs in _costs().values() for own in costs)
    if len(near) < FEWEST_PEERS and cost < costliest:
        farthest = sorted(distances.values())[FEWEST_PEERS - 1]
        near = [form for form, distance in distances.items() if distance <= farthest]
    return near


@cache
def _written() -> dict[str, Cell]:
    """Return all cells by their notation in the benchmark."""
    return {str(cell): cell for cell in _forms()}


def _columns(path: Path) -> dict[str, dict[Cell, float]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        names = [name for name in rows.fieldnames or () if name != "architecture"]
        if "architecture" not in (rows.fieldnames or ()) or not names:
            raise ValueError(f"{path} must have a column 'architecture' and columns of accuracies")
        columns: dict[str, dict[Cell, float]] = {name: {} for name in names}
        for row in rows:
            cell = _cell(path, rows.line_num, row["architecture"])
            for name in names:
                if cell in columns[name]:
                    raise ValueError(f"{path} must list every cell once, but line {rows.line_num} repeats {cell}")
                columns[name][cell] = _accuracy(path, rows.line_num, name, row[name])
    return columns


def _cell(path: Path, line: int, text: str | None) -> Cell:
    known = _written().get(text or "")
    try:
        return known or Cell.parse(text or "")
    except ValueError as error:
        raise ValueError(f"line {line} of {path}: {error}") from None


def _accuracy(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise ValueError(f"line {line} of {path}: {column} must be a percentage from 0 to 100, but got {text!r}")
    return value
