"""Where the runs of studies lie: a folder each, which several processes may work on and any of them may leave."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from smallgroup.phases.evaluation import TrainResult
from smallgroup.phases.search.result import SearchResult
from smallgroup.runner.lock import held
from smallgroup.runtime.files import write_whole
from smallgroup.study.measures import Outcome
from smallgroup.study.plan import Run

State = Literal["done", "failed", "running", "waiting"]
SEARCH, TRAINING, FAILED = "search", "training-{}", "failed.json"


@dataclass(frozen=True)
class Store:
    """Runs by the hash of their config: a study that needs one that is there already does not repeat it."""

    root: Path
    _known: dict[str, Outcome] = field(default_factory=dict, compare=False, repr=False)
    """Complete runs stay as they are; whoever watches a study asks for them again and again."""

    def folder(self, run: Run) -> Path:
        """Of a run."""
        return self.root / "runs" / run.key

    def outcome(self, run: Run) -> Outcome | None:
        """What a complete run has come to."""
        if run.key not in self._known and (found := self._read(run)) is not None:
            self._known[run.key] = found
        return self._known.get(run.key)

    def _read(self, run: Run) -> Outcome | None:
        folder = self.folder(run)
        search = SearchResult.read(folder / SEARCH)
        trainings = [TrainResult.read(folder / TRAINING.format(i)) for i in range(len(run.trainings))]
        whole = tuple(each for each in trainings if each is not None)
        return None if search is None or len(whole) < len(trainings) else Outcome(search, whole)

    def state(self, run: Run) -> State:
        """How it stands."""
        if self.outcome(run) is not None:
            return "done"
        if held(self.folder(run)):
            return "running"
        return "failed" if self.failure(run) is not None else "waiting"

    def failure(self, run: Run) -> str | None:
        """Why a run failed, if it did."""
        try:
            return str(json.loads((self.folder(run) / FAILED).read_text(encoding="utf-8"))["error"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError):
            return "it failed, and its error cannot be read"

    def record_failure(self, run: Run, error: str) -> None:
        """For the table, and so that nobody tries in vain again."""
        write_whole(self.folder(run) / FAILED, json.dumps({"error": " ".join(error.split())}) + "\n")

    def forget_failure(self, run: Run) -> None:
        """It may be tried again."""
        (self.folder(run) / FAILED).unlink(missing_ok=True)
