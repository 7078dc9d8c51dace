"""How a search ends: every learner is looked at, the group answers, and the cell is written down."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor

from smallgroup.group import NonFiniteError
from smallgroup.phases.evaluate import Evaluation, evaluate
from smallgroup.phases.search.answer import (
    OF_A_LEARNER,
    Answer,
    AnswerRecord,
    Finalist,
    give_answer,
    retained_learner,
    retained_record,
)
from smallgroup.phases.search.config import in_words
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.search.metrics import standing
from smallgroup.phases.shown import ShownResult
from smallgroup.runner import place
from smallgroup.runtime.device import peak_memory_on
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.runtime.memory import peak_memory
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import FILE, Origin, from_plain, read, to_plain, write

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
    """Error on the images that were held out from the search, if there are any."""
    balanced_error: float | None = None
    """The mean over the classes of the validation error on each; results of earlier versions have none."""
    derived_error: float | None = None
    """Error of its derived cell with the shared weights, on all validation images; only if it decides the answer."""


@dataclass(frozen=True)
class SearchResult(ShownResult):
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
    answer: AnswerRecord
    """The cell's learner and the rule; results of earlier versions have the retained learner's."""
    genotype: Any
    """The cell of the answer, as in `genotype.json`."""
    parameters: int
    """Parameters of the retained learner's supernet, to which losses and errors below also belong."""
    validation_loss: float
    validation_error: float
    group: list[LearnerResult]
    true_accuracy: dict[str, float] | None = None
    """True accuracy of the answer, looked up after the search and used for nothing; so is the percentile."""
    percentile: dict[str, float] | None = None
    percentile_at_cost: dict[str, float | None] | None = None
    held_out_error: float | None = None
    balanced_error: float | None = None
    """Mean over the classes of the errors on validation images."""
    device_memory_mb: float | None = None
    """The most that tensors took on a device of its own memory, where it keeps statistics."""
    skipped_images: int | None = None
    """Image files that cannot be decoded and were left out, if there are any; `facts.json` names them."""

    @property
    def gradient(self) -> str:
        """What the architectures followed, in words."""
        return in_words(self.hypergradient, taught=self.learners > 1 and self.lam > 0)

    @property
    def answer_space(self) -> str:
        """The space of the answer's cell; learners may have spaces of their own."""
        return self._spaces[self.answer.learner or 0]

    @property
    def _spaces(self) -> list[str]:
        return self.space.split("+") if "+" in self.space else [self.space] * self.learners

    def to_dict(self) -> dict[str, Any]:
        """Return the result under the names that files have, without unknown values."""
        plain = asdict(self)
        plain["lambda"] = plain.pop("lam")
        plain["group"] = [_known(learner) for learner in plain["group"]]
        if self.answer.candidates is None:  # there was no play-off
            del plain["answer"]["candidates"], plain["answer"]["seconds"]
        return _known(plain)

    @staticmethod
    def read(folder: Path) -> "SearchResult | None":
        """Read the file of a finished run; None if there is none, or none that can be used."""
        try:
            plain = json.loads(read_regular(folder / RESULT))
            plain["lam"] = plain.pop("lambda")
            plain.setdefault("answer", asdict(retained_record(plain["retained"])))
            result = _RESULT.validate_json(json.dumps(plain), strict=True)
            for space, learner in zip(result._spaces, result.group, strict=True):
                from_plain(space, learner.genotype)
            return result if result._fits(read(folder / FILE, links=False)[0]) else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
            return None

    def _fits(self, written: Genotype) -> bool:
        """Return whether the answer is the cell that it names; `written` is the cell of `genotype.json`."""
        answer, retained = self.answer, self.group[self.retained]  # an IndexError where there is no such learner
        own = retained if answer.learner is None else self.group[answer.learner]
        if answer.rule == "retained" and own is not retained:
            return False
        if answer.rule in OF_A_LEARNER:
            return answer.learner is not None and own.genotype == self.genotype
        return bool(to_plain(from_plain(self.answer_space, self.genotype)) == to_plain(written))


_RESULT = TypeAdapter(SearchResult)


def conclude(
    job: SearchJob,
    *,
    seed: int,
    seconds: float,
    folder: Path,
    play_off: Callable[[Sequence[Finalist]], Answer] | None = None,
) -> SearchResult:
    """Look at every learner on all validation images, let the group answer, write `genotype.json` and `result.json`."""
    genotypes: list[Genotype] = [s.relaxed.derive(s.learner.architecture) for s in job.searchers]
    learners = [
        _learner(k, searcher, genotype, job)
        for k, (searcher, genotype) in enumerate(zip(job.searchers, genotypes, strict=True))
    ]
    finalists = [
        Finalist(searcher, genotype, learner.validation_loss, learner.derived_error)
        for searcher, genotype, learner in zip(job.searchers, genotypes, learners, strict=True)
    ]
    retained = retained_learner(finalists)
    answer = give_answer(job.config.answer, finalists) if play_off is None else play_off(finalists)
    best, searcher = learners[retained], job.searchers[retained]
    known: dict[str, Any] = standing(job.metrics.truth, answer.genotype)
    result = SearchResult(
        method=_joined([learner.method for learner in learners]),
        space=_joined([each.relaxed.space.name for each in job.searchers]),
        dataset=job.data.dataset.name,
        learners=len(learners),
        lam=job.config.lam,
        hypergradient=job.config.hypergradient,
        seed=seed,
        steps=job.step,
        seconds=seconds + (answer.record.seconds or 0.0),
        peak_memory_mb=round(peak_memory() / 2**20, 1),
        retained=retained,
        answer=answer.record,
        genotype=to_plain(answer.genotype),
        parameters=sum(tensor.numel() for tensor in searcher.learner.w.values()),
        validation_loss=best.validation_loss,
        validation_error=best.validation_error,
        group=learners,
        **known,
        held_out_error=best.held_out_error,
        balanced_error=best.balanced_error,
        device_memory_mb=None if (most := peak_memory_on(job.device)) is None else round(most / 2**20, 1),
        skipped_images=len(job.data.skipped) or None,
    )
    whose = result.method if answer.record.learner is None else learners[answer.record.learner].method
    write_architectures(folder / ARCHITECTURES, job.searchers, genotypes)
    write(folder / FILE, answer.genotype, Origin(whose, result.dataset, seed))
    write_whole(folder / RESULT, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
    return result


def write_architectures(path: Path, searchers: Sequence[Searcher], genotypes: Sequence[Genotype]) -> None:
    """Write each learner's score for every operation."""
    learners = []
    for searcher, genotype in zip(searchers, genotypes, strict=True):
        tables = {kind: [[_or_null(v) for v in row] for row in t.tolist()] for kind, t in searcher.scores.items()}
        own = {"space": genotype.space, "genotype": to_plain(genotype), "scores": tables}
        learners.append({**own, "most_skips": searcher.relaxed.method.most_skips})
    write_whole(path, json.dumps({"schema": 1, "learners": learners}) + "\n")


def _or_null(value: float) -> float | None:
    """Return a finite number, else None: JSON has no infinity, which marks removed operations."""
    return value if math.isfinite(value) else None


def _learner(k: int, searcher: Searcher, genotype: Genotype, job: SearchJob) -> LearnerResult:
    data = job.data

    def on(images: Tensor, which: str, logits_of: Callable[[Tensor], Tensor] = searcher.logits) -> Evaluation:
        found = evaluate(
            logits_of, data.dataset.train, data.dataset, images, workers=data.workers, device=searcher.learner.device
        )
        if not math.isfinite(found.loss):  # then the errors say nothing, although they are numbers
            raise NonFiniteError(k, 2, f"the loss on all {which} images", job.step)
        return found

    found, kept = on(data.splits.validation, "validation"), data.splits.held_out
    known: dict[str, Any] = {**standing(job.metrics.truth, genotype), "balanced_error": found.balanced_error}
    if len(kept):
        known["held_out_error"] = on(kept, "held-out").error
    if job.config.answer == "derived-error":
        derived = partial(searcher.relaxed.derived_logits, searcher.learner.w, genotype)
        known["derived_error"] = on(data.splits.validation, "validation", derived).error
    return LearnerResult(searcher.relaxed.method.name, found.loss, found.error, to_plain(genotype), **known)


def _joined(names: Sequence[str]) -> str:
    """Return one name if all are equal, else all of them."""
    return "+".join(names) if len(set(names)) > 1 else names[0]


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
