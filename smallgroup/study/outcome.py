"""What a run of a study has come to: all that measures look at."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from smallgroup.config import Config
from smallgroup.phases.search.result import ARCHITECTURES, SearchResult
from smallgroup.phases.training import TrainResult
from smallgroup.runtime.files import read_regular


@dataclass(frozen=True)
class Outcome:
    """The results of a search and of the trainings of its answer."""

    search: SearchResult
    config: Config
    """Config of the search."""
    place: Path
    """Where the files of the search are."""
    trainings: tuple[TrainResult, ...] = ()
    """Trainings of the answer's cell."""
    labelers: SearchResult | None = None
    """The search that had to be carried out before."""

    @property
    def seconds(self) -> float:
        """What it took to find the cell."""
        return self.search.seconds + (0.0 if self.labelers is None else self.labelers.seconds)

    @cached_property
    def scores(self) -> list[Any]:
        """By learner and kind of cell, the scores after the last step; empty where they cannot be read."""
        try:
            learners = json.loads(read_regular(self.place / ARCHITECTURES))["learners"]
            return [learner["scores"] for learner in learners]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return []
