"""How good cells of either space are once they are trained, as far as the files under the data root say.

It is written down and used for nothing: no search is influenced by it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from smallgroup.spaces.darts.truth import COLUMN, SPEARMAN, Surrogate
from smallgroup.spaces.genotypes import AnyGenotype
from smallgroup.spaces.nas_bench_201.cell import Cell
from smallgroup.spaces.nas_bench_201.truth import Truth

CAVEAT = f"a prediction, whose Spearman correlation with 214 trained cells is {SPEARMAN}; it does not see skips"


@dataclass(frozen=True)
class GroundTruth:
    """The table of NAS-Bench-201 and the surrogate of NAS-Bench-301; None is what was not found or not looked for."""

    table: Truth | None = None
    surrogate: Surrogate | None = None

    @staticmethod
    def find(root: Path, spaces: Iterable[str]) -> "GroundTruth":
        """Return what a data root has for these spaces."""
        names = set(spaces)
        return GroundTruth(
            Truth.find(root) if "nas-bench-201" in names else None,
            Surrogate.find(root) if "darts" in names else None,
        )

    def of(self, genotype: AnyGenotype) -> dict[str, dict[str, float | None]]:
        """Return accuracy and percentiles by name and column; nothing for a cell of which nothing is known."""
        if isinstance(genotype, Cell):
            if self.table is None:
                return {}
            found = {column: self.table.standing(genotype, column) for column in self.table.columns}
            return {
                "true_accuracy": {column: one.accuracy for column, one in found.items()},
                "percentile": {column: one.percentile for column, one in found.items()},
                "percentile_at_cost": {column: one.percentile_at_cost for column, one in found.items()},
            }
        predicted = None if self.surrogate is None else self.surrogate.standing(genotype)
        if predicted is None:
            return {}
        return {"true_accuracy": {COLUMN: predicted.accuracy}, "percentile": {COLUMN: predicted.percentile}}


def accuracy_on(column: str) -> str:
    """Return what a column's accuracy is called: what a surrogate predicts is not true."""
    return f"accuracy predicted by {COLUMN}" if column == COLUMN else f"true accuracy on {column}"
