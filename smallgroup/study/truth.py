"""The table of true accuracies that a study's searches are judged by."""

from functools import cache
from pathlib import Path

from smallgroup.config import Config
from smallgroup.data import data_root
from smallgroup.spaces.nas_bench_201 import Truth


def truth_for(config: Config) -> Truth:
    """The table that says how good the cells of a search are."""
    root, dataset = data_root(config.data.data_root), config.data.dataset
    truth = _found(root)
    spaces = {(learner.space or config.space).name for learner in config.learners}
    if truth is None or dataset not in truth.columns or len(truth.columns) < 2 or spaces != {"nas-bench-201"}:
        raise ValueError(
            f"true accuracies need searches in nas-bench-201 and a table of {dataset} and another dataset in "
            f"{root / 'nas-bench-201'}; without one, take columns and a primary measure like validation_error"
        )
    return truth


def looked_up_in(truth: Truth, dataset: str) -> str:
    """The column that baselines may search when they are scored by that of a dataset."""
    return next(name for name in truth.columns if name != dataset)


@cache
def _found(root: Path) -> Truth | None:
    """Read once."""
    return Truth.find(root)
