"""Where the runs of studies lie: a folder each, which several processes may work on and any of them may leave."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.training import TrainResult
from smallgroup.runner.lock import held
from smallgroup.runtime.files import check_not_link, read_regular, write_whole
from smallgroup.study.folder import FAILED, RUNS, WORKERS, check_for_studies
from smallgroup.study.outcome import Outcome
from smallgroup.study.plan import Plan, PlannedRun, Runs

StoreState = Literal["done", "failed", "running", "waiting"]


@dataclass(frozen=True)
class Store:
    """Runs by the hash of their config: a study that needs a run that is already there does not repeat it."""

    root: Path
    _known: dict[str, SearchResult | TrainResult] = field(default_factory=dict, compare=False, repr=False)
    """Complete runs stay as they are; whoever watches a study asks for them again and again."""

    def check(self) -> None:
        """Refuse a folder that holds anything but studies; nothing is written to it."""
        check_for_studies(self.root)

    def check_links(self, plan: Plan) -> None:
        """Refuse a study with a link in place of a folder that would be written to."""
        for folder in (self.root / plan.name, self.root / plan.name / WORKERS):
            check_not_link(folder, "study")
        for run in plan.runs:
            self.check_own(run)

    def check_own(self, run: PlannedRun) -> None:
        """Refuse a link on the way from the store to the files of a run; the store itself may be one."""
        for folder in (self.root / RUNS, self.folder(run), self.place(run)):
            check_not_link(folder, "study")

    def folder(self, run: PlannedRun) -> Path:
        """Return the folder of a run, whose lock is held by whoever works on it."""
        return self.root / RUNS / run.key

    def place(self, run: PlannedRun) -> Path:
        """Return the folder of the run's own files, as the commands write them."""
        return self.folder(run) / run.phase

    def result(self, run: PlannedRun) -> SearchResult | TrainResult | None:
        """Return the result of a finished run; None: it is not finished."""
        if run.key not in self._known:
            place = self.place(run)
            found = SearchResult.read(place) if run.trains is None else TrainResult.read(place)
            if found is None or not _fits(found, run):
                return None
            self._known[run.key] = found
        return self._known[run.key]

    def outcome(self, runs: Runs) -> Outcome | None:
        """Return the results of a search and its trainings; None: some are not complete."""
        search, trainings = self.result(runs.search), [self.result(run) for run in runs.trainings]
        labelers = None if runs.search.labelers is None else self.result(runs.search.labelers)
        whole = tuple(each for each in trainings if isinstance(each, TrainResult))
        if not isinstance(search, SearchResult) or len(whole) != len(trainings):
            return None
        before = labelers if isinstance(labelers, SearchResult) else None
        return Outcome(search, runs.search.config, self.place(runs.search), whole, before)

    def state(self, run: PlannedRun) -> StoreState:
        """Return whether a run is done, running, failed or waiting."""
        if self.result(run) is not None:
            return "done"
        if held(self.folder(run)):
            return "running"
        return "failed" if self.failure(run) is not None else "waiting"

    def failure(self, run: PlannedRun) -> str | None:
        """Return why a run failed; None: it did not."""
        try:
            return str(json.loads(read_regular(self.folder(run) / FAILED))["error"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError):
            return "it failed, and its error cannot be read"

    def record_failure(self, run: PlannedRun, error: str) -> None:
        """Write down why a run failed, for the table, and so that it is not tried again."""
        self.check_own(run)
        write_whole(self.folder(run) / FAILED, json.dumps({"error": " ".join(error.split())}) + "\n")

    def forget_failure(self, run: PlannedRun) -> None:
        """Delete the record of a failure, so that the run is tried again."""
        self.check_own(run)
        (self.folder(run) / FAILED).unlink(missing_ok=True)


def _fits(found: SearchResult | TrainResult, run: PlannedRun) -> bool:
    """Return whether a result belongs to such a run: files in a folder may have been put there by hand."""
    config = run.config
    if found.seed != config.seed or (":" not in config.data.dataset and found.dataset != config.data.dataset):
        return False
    if isinstance(found, TrainResult):
        return True
    said = (found.learners, found.lam, found.hypergradient)
    return said == (len(config.learners), config.lam, config.search.hypergradient)
