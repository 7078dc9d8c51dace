"""How mutual learning ends: every network is tested once, and everything is written down."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from smallgroup.phases.shown import ShownResult
from smallgroup.phases.training.mutual import MutualJob
from smallgroup.phases.training.result import RESULT, TrainResult, write_result
from smallgroup.runner import read_rows
from smallgroup.runtime.files import check_not_link, read_regular, write_whole
from smallgroup.spaces import genotypes


@dataclass(frozen=True)
class PeerResult:
    """One network of the group; its folder has more, and its model."""

    folder: str
    """Within that of the run; `smallgroup predict` and `smallgroup export` take it."""
    space: str
    genotype: Any
    parameters: int
    multiply_adds: int
    epochs: int
    seconds: float
    """Seconds of the whole group, whose steps are taken together."""
    train_error: float
    divergence: float
    """Divergence from the answers of the peers, over the last epoch."""
    test_error: float | None
    test_error_top5: float | None
    balanced_error: float | None = None
    """The mean over the classes of the test error on each; results of earlier versions have none."""


@dataclass(frozen=True)
class MutualResult(ShownResult):
    """Networks that were trained together: what `result.json` says. Errors are percentages."""

    dataset: str
    seed: int
    weight: float
    """Weight of the peers; 0: no network learns from another."""
    epochs: int
    steps: int
    seconds: float
    peak_memory_mb: float
    test_set: str
    mean: dict[str, float] | None
    """Mean of the test errors over the learners."""
    learners: list[PeerResult]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the file has it."""
        return asdict(self)

    @staticmethod
    def read(folder: Path) -> "MutualResult | None":
        """Read the file of a finished run; None if there is none, or none that can be used."""
        try:
            result = _RESULT.validate_json(read_regular(folder / RESULT), strict=True)
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        there = all(TrainResult.read(folder / folder_of(k)) is not None for k in range(len(result.learners)))
        return result if there else None


_RESULT = TypeAdapter(MutualResult)


def folder_of(learner: int) -> str:
    """Return the folder of a learner's model, within the folder of the run."""
    return f"learner-{learner}"


def check_places(folder: Path, learners: int) -> None:
    """Refuse a link in the place of a learner's folder, before anything is computed."""
    for k in range(learners):
        check_not_link(folder / folder_of(k))


def conclude(job: MutualJob, *, seconds: float, folder: Path) -> MutualResult:
    """Look at the test images once with every network, and write the models and `result.json`."""
    rows = list(read_rows(folder / "metrics.jsonl"))
    results, learners = [], []
    for k, trainee in enumerate(job.trainees):
        found = None if job.data.tested is None else trainee.test()
        place, own = folder / folder_of(k), [row for row in rows if row["learner"] == k]
        place.mkdir(exist_ok=True)
        genotypes.write(place / genotypes.FILE, trainee.genotype)
        results.append(write_result(trainee, found, own, steps=job.step, seconds=seconds, folder=place))
        learners.append(_learner(k, results[-1], own[-1]["divergence"]))
    result = MutualResult(
        dataset=results[0].dataset,
        seed=job.seed,
        weight=job.peers.weight,
        epochs=results[0].epochs,
        steps=job.step,
        seconds=seconds,
        peak_memory_mb=results[-1].peak_memory_mb,
        test_set=results[0].test_set,
        mean=_mean(results),
        learners=learners,
    )
    write_whole(folder / RESULT, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
    return result


def _mean(results: Sequence[TrainResult]) -> dict[str, float] | None:
    tops = {
        "test_error": [result.test_error for result in results],
        "test_error_top5": [result.test_error_top5 for result in results],
    }
    known = {name: [error for error in errors if error is not None] for name, errors in tops.items()}
    return {name: fmean(errors) for name, errors in known.items()} if known["test_error"] else None


def _learner(learner: int, result: TrainResult, divergence: float) -> PeerResult:
    return PeerResult(
        folder=folder_of(learner),
        space=result.space,
        genotype=result.genotype,
        parameters=result.parameters,
        multiply_adds=result.multiply_adds,
        epochs=result.epochs,
        seconds=result.seconds,
        train_error=result.train_error,
        divergence=divergence,
        test_error=result.test_error,
        test_error_top5=result.test_error_top5,
        balanced_error=result.balanced_error,
    )
