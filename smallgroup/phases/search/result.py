"""How a search ends: the learner with the lowest validation loss is kept, and its cell written down."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor

from smallgroup.group import NonFiniteError
from smallgroup.phases.evaluate import Evaluation, evaluate
from smallgroup.phases.search.config import in_words
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.search.metrics import standing
from smallgroup.runner import place
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.runtime.memory import peak_memory
from smallgroup.spaces.genotypes import FILE, AnyGenotype, Origin, from_plain, read, space_of, to_plain, write

RESULT, ARCHITECTURES = place.RESULT, "architectures.json"


@dataclass(frozen=True)
class LearnerResult:
    """One learner at the end of a search; errors and accuracies in percent."""

    method: str
    validation_loss: float
    validation_error: float
    genotype: Any
    true_accuracy: dict[str, float] | None = None
    percentile: dict[str, float] | None = None
    percentile_at_cost: dict[str, float | None] | None = None
    """Among cells of similar cost, None for the one that has no peer; results of earlier versions have none."""
    held_out_error: float | None = None
    """On the images that were kept from the search, if there are any."""
    balanced_error: float | None = None
    """The mean over the classes of the validation error on each; results of earlier versions have none."""


@dataclass(frozen=True)
class SearchResult:
    """A finished search: what `result.json` says."""

    method: str
    space: str
    dataset: str
    learners: int
    lam: float
    hypergradient: str
    seed: int
    steps: int
    seconds: float
    peak_memory_mb: float
    retained: int
    """The learner with the lowest loss over the full validation set, counted from 0."""
    genotype: Any
    parameters: int
    """Of the retained learner's supernet."""
    validation_loss: float
    validation_error: float
    group: list[LearnerResult]
    true_accuracy: dict[str, float] | None = None
    percentile: dict[str, float] | None = None
    percentile_at_cost: dict[str, float | None] | None = None
    held_out_error: float | None = None
    balanced_error: float | None = None
    """Of the validation images, over the classes."""
    skipped_images: int | None = None
    """Image files that cannot be decoded and were left out, if there are any; `facts.json` names them."""

    @property
    def gradient(self) -> str:
        """What the architectures followed, in words."""
        return in_words(self.hypergradient, taught=self.learners > 1 and self.lam > 0)

    def to_dict(self) -> dict[str, Any]:
        """Under the names that files have; what is not known is left out."""
        plain = asdict(self)
        plain["lambda"] = plain.pop("lam")
        plain["group"] = [_known(learner) for learner in plain["group"]]
        return _known(plain)

    @staticmethod
    def read(folder: Path) -> "SearchResult | None":
        """What the file of a finished run says; None if there is none, or none that can be used."""
        try:
            plain = json.loads(read_regular(folder / RESULT))
            plain["lam"] = plain.pop("lambda")
            result = _RESULT.validate_json(json.dumps(plain), strict=True)
            spaces = result.space.split("+") if "+" in result.space else [result.space] * result.learners
            for space, learner in zip(spaces, result.group, strict=True):
                from_plain(space, learner.genotype)
            read(folder / FILE, links=False)
            return result if result.group[result.retained].genotype == result.genotype else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
            return None


_RESULT = TypeAdapter(SearchResult)


def conclude(job: SearchJob, *, seed: int, seconds: float, folder: Path) -> SearchResult:
    """Look at every learner on the full validation set, keep the best, write `genotype.json` and `result.json`."""
    genotypes: list[AnyGenotype] = [s.relaxed.derive(s.learner.architecture) for s in job.searchers]
    learners = [
        _learner(k, searcher, genotype, job)
        for k, (searcher, genotype) in enumerate(zip(job.searchers, genotypes, strict=True))
    ]
    retained = min(range(len(learners)), key=lambda k: learners[k].validation_loss)
    best, searcher = learners[retained], job.searchers[retained]
    result = SearchResult(
        method=_joined([learner.method for learner in learners]),
        space=_joined([each.relaxed.space.name for each in job.searchers]),
        dataset=job.data.dataset.name,
        learners=len(learners),
        lam=job.config.lam,
        hypergradient=job.config.hypergradient,
        seed=seed,
        steps=job.step,
        seconds=seconds,
        peak_memory_mb=round(peak_memory() / 2**20, 1),
        retained=retained,
        genotype=best.genotype,
        parameters=sum(tensor.numel() for tensor in searcher.learner.w.values()),
        validation_loss=best.validation_loss,
        validation_error=best.validation_error,
        group=learners,
        true_accuracy=best.true_accuracy,
        percentile=best.percentile,
        percentile_at_cost=best.percentile_at_cost,
        held_out_error=best.held_out_error,
        balanced_error=best.balanced_error,
        skipped_images=len(job.data.skipped) or None,
    )
    write_architectures(folder / ARCHITECTURES, job.searchers, genotypes)
    write(folder / FILE, genotypes[retained], Origin(best.method, result.dataset, seed))
    write_whole(folder / RESULT, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
    return result


def write_architectures(path: Path, searchers: Sequence[Searcher], genotypes: Sequence[AnyGenotype]) -> None:
    """What every learner holds of every operation: for cells beside the derived ones, should those be too large."""
    learners = []
    for searcher, genotype in zip(searchers, genotypes, strict=True):
        scores = searcher.relaxed.method.scores(searcher.learner.architecture)
        tables = {kind: [[_or_null(value) for value in row] for row in t.tolist()] for kind, t in scores.items()}
        own = {"space": space_of(genotype), "genotype": to_plain(genotype), "scores": tables}
        learners.append({**own, "most_skips": searcher.relaxed.method.most_skips})
    write_whole(path, json.dumps({"schema": 1, "learners": learners}) + "\n")


def _or_null(value: float) -> float | None:
    """JSON has no infinity, which marks what has been removed."""
    return value if math.isfinite(value) else None


def _learner(k: int, searcher: Searcher, genotype: AnyGenotype, job: SearchJob) -> LearnerResult:
    data = job.data

    def on(images: Tensor, which: str) -> Evaluation:
        found = evaluate(searcher.logits, data.dataset.train, data.dataset, images, workers=data.workers)
        if not math.isfinite(found.loss):  # then the errors say nothing, although they are numbers
            raise NonFiniteError(k, 2, f"the loss on all {which} images", job.step)
        return found

    found, kept = on(data.splits.validation, "validation"), data.splits.held_out
    known: dict[str, Any] = {**standing(job.metrics.truth, genotype), "balanced_error": found.balanced_error}
    if len(kept):
        known["held_out_error"] = on(kept, "held-out").error
    return LearnerResult(searcher.relaxed.method.name, found.loss, found.error, to_plain(genotype), **known)


def _joined(names: Sequence[str]) -> str:
    """One name where all are the same, else all of them."""
    return "+".join(names) if len(set(names)) > 1 else names[0]


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
