"""The table of true accuracies that a study's searches are judged by."""

from functools import cache
from pathlib import Path

from smallgroup.config import Config
from smallgroup.data import data_root
from smallgroup.spaces import GROUND_TRUTHS, GroundTruth


def truth_for(config: Config) -> GroundTruth:
    """The table that says how good the cells of a search are."""
    root, dataset = data_root(config.data.data_root), config.data.dataset
    spaces = {(learner.space or config.space).name for learner in config.learners}
    tables = [kind for _, kind in GROUND_TRUTHS.usable() if kind.caveat is None]
    for kind in tables:
        truth = _found(kind.name, root) if spaces == {kind.space} else None
        if truth is not None and dataset in truth.columns and len(truth.columns) > 1:
            return truth
    known = " or ".join(kind.space for kind in tables)
    places = " or ".join(str(root / kind.name) for kind in tables)
    raise ValueError(
        f"true accuracies need searches in {known} and a table of {dataset} and another dataset in {places}; "
        "without one, take columns and a primary measure like validation_error"
    )


def looked_up_in(truth: GroundTruth, dataset: str) -> str:
    """The column that baselines may search when they are scored by that of a dataset."""
    return next(name for name in truth.columns if name != dataset)


@cache
def _found(name: str, root: Path) -> GroundTruth | None:
    """Read once."""
    return GROUND_TRUTHS[name].find(root)
