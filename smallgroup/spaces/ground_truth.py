"""How good cells are once they are trained, as far as files under the data root say.

It is written down and used for nothing: no search is influenced by it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from smallgroup.spaces import GROUND_TRUTHS
from smallgroup.spaces.genotype import Genotype

Known = dict[str, dict[str, float | None]]
"""By `true_accuracy`, `percentile` and perhaps `percentile_at_cost`, and by column: numbers in percent."""


@dataclass(frozen=True)
class Standing:
    """The accuracy and percentiles of one cell in one column of a table."""

    accuracy: float
    """Accuracy of the cell in percent."""
    percentile: float
    """How many of the distinct cells, in percent, are worse; ties count half. 100 is out of reach, 50 is the median."""
    percentile_at_cost: float | None = None
    """The same among cells of similar cost; None where that cannot be said."""


class GroundTruth:
    """A table or a surrogate for the cells of a space. Subclass it, and register the subclass.

    @smallgroup.spaces.register_ground_truth
    class Mine(GroundTruth): ...
    """

    name: ClassVar[str]
    """What files and the command call it; also its folder under the data root."""
    space: ClassVar[str]
    """The name of the space whose cells it knows."""
    about: ClassVar[str]
    """What there is in a folder that is in order."""
    caveat: ClassVar[str | None] = None
    """Why its numbers are predictions, if they are; a table of cells that were trained has none."""

    compared_with: ClassVar[str] = "all cells"
    """Which cells a percentile compares with."""
    columns: Collection[str]
    """The datasets, or what else numbers are for."""

    @classmethod
    def find(cls, root: Path) -> Self | None:
        """Read the table or surrogate from a data root; None: it is not there. A damaged file is a ValueError."""
        raise NotImplementedError

    def known(self, genotype: Any) -> Known:  # noqa: ANN401 -- one of its space
        """Return what is known of a cell; nothing for an unknown cell."""
        found = {column: self.standing(genotype, column) for column in self.columns}
        return {
            "true_accuracy": {column: one.accuracy for column, one in found.items()},
            "percentile": {column: one.percentile for column, one in found.items()},
        }

    def standing(self, genotype: Any, column: str) -> Standing:  # noqa: ANN401, ARG002
        """Return accuracy and percentiles of a cell, which takes a table of all cells."""
        raise ValueError(f"{self.name} must be a table of all cells to rank one, but it is not")

    def accuracy(self, genotype: Any, column: str) -> float:  # noqa: ANN401
        """Return the accuracy of a cell, for baselines that look up many."""
        return self.standing(genotype, column).accuracy

    def score_correlation(self, scores: Mapping[str, Any], column: str) -> float | None:  # noqa: ARG002
        """Return how well a learner's scores, by kind of cell, agree with the true effects of operations, -1 to 1.

        None where that cannot be said, such as of scores that are all the same.
        """
        return None

    def effects_in_words(self, column: str) -> str | None:  # noqa: ARG002
        """Return what those effects are, and how much of the accuracies they explain; None: there are none."""
        return None

    @classmethod
    def missing(cls, where: Path) -> str:
        """Say why there is none in a folder, and what to do about it."""
        return f"there is nothing in {where}"


@dataclass(frozen=True)
class GroundTruths:
    """The tables of true accuracies that were found for some spaces."""

    found: tuple[GroundTruth, ...] = ()

    @staticmethod
    def find(root: Path, spaces: Iterable[str]) -> "GroundTruths":
        """Return what a data root has for these spaces."""
        names = set(spaces)
        kinds = [kind for _, kind in GROUND_TRUTHS.usable() if kind.space in names]
        return GroundTruths(tuple(one for kind in kinds if (one := kind.find(root)) is not None))

    def of(self, genotype: Genotype) -> Known:
        """Return accuracy and percentiles by name and column; nothing for a cell of which nothing is known."""
        result: Known = {}
        for truth in self.found:
            if truth.space == genotype.space:
                for name, columns in truth.known(genotype).items():
                    result[name] = {**result.get(name, {}), **columns}
        return result


def caveat_of(column: str) -> str | None:
    """Return why the numbers of a column are predictions; None if cells were trained for them."""
    return GROUND_TRUTHS[column].caveat if column in GROUND_TRUTHS else None


def cells_compared_with(column: str) -> str:
    """Return which cells a percentile of a column counts."""
    return GROUND_TRUTHS.get(column, GroundTruth).compared_with


def accuracy_on(column: str) -> str:
    """Return what a column's accuracy is called: what a surrogate predicts is not true."""
    return f"accuracy predicted by {column}" if caveat_of(column) else f"true accuracy on {column}"
