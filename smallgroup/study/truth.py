"""The table of true accuracies, or the surrogate, that a study's searches are judged by."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from smallgroup.config import Config
from smallgroup.data import data_root
from smallgroup.spaces import GROUND_TRUTHS, Genotype, GroundTruth, Standing


def truth_for(config: Config) -> GroundTruth:
    """Return the table of true accuracies for the cells of a search."""
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


def surrogate_for(config: Config) -> GroundTruth:
    """Return the surrogate that predicts the accuracy of the cells of a search."""
    root = data_root(config.data.data_root)
    spaces = {(learner.space or config.space).name for learner in config.learners}
    surrogates = [kind for _, kind in GROUND_TRUTHS.usable() if kind.caveat is not None]
    for kind in surrogates:
        surrogate = _found(kind.name, root) if spaces == {kind.space} else None
        if surrogate is not None:
            return surrogate
    known = " or ".join(f"{kind.space} ({kind.missing(root / kind.name)})" for kind in surrogates)
    raise ValueError(f"predicted accuracies need searches in {known}; this one is in {', '.join(sorted(spaces))}")


@dataclass(frozen=True)
class Judge:
    """The table that baselines look up, and the column they are scored by."""

    truth: GroundTruth
    looked_up: str
    scored: str

    @property
    def predicts(self) -> bool:
        """Return whether the accuracies are predicted by a surrogate."""
        return self.truth.caveat is not None

    def standing(self, cell: Genotype) -> Standing | None:
        """Return how good a cell is; None where a surrogate does not know it."""
        return self.truth.standing(cell, self.scored) if self.truth.known(cell) else None


def judge_for(config: Config) -> Judge:
    """Return the table of a search's space, with a column to search and another to score; else its surrogate."""
    spaces = {(learner.space or config.space).name for learner in config.learners}
    if any(kind.caveat is not None and spaces == {kind.space} for _, kind in GROUND_TRUTHS.usable()):
        surrogate = surrogate_for(config)
        column = next(iter(surrogate.columns))
        return Judge(surrogate, column, column)
    truth, dataset = truth_for(config), config.data.dataset
    return Judge(truth, next(name for name in truth.columns if name != dataset), dataset)


@cache
def _found(name: str, root: Path) -> GroundTruth | None:
    """Read a ground truth, once per process."""
    return GROUND_TRUTHS[name].find(root)
