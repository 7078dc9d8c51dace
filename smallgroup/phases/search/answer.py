"""How the group answers: which cell a search gives, by the rule that `search.answer` names.

No rule looks at test images, at held-out images or at a table of true accuracies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from smallgroup.methods import Method
from smallgroup.phases.search.config import AnswerRule
from smallgroup.phases.search.learners import Searcher
from smallgroup.spaces import Space
from smallgroup.spaces.choices import mean_scores
from smallgroup.spaces.genotype import Genotype

OF_A_LEARNER: frozenset[AnswerRule] = frozenset({"retained", "derived-error"})
"""Rules whose answer is always the derived cell of a learner."""


@dataclass(frozen=True)
class CandidateRecord:
    """A cell that took part in a play-off, and how it stood when its training ended."""

    source: str
    """Where it comes from, such as `learner 0`, `consensus` or `next to consensus`."""
    learner: int | None
    """The learner whose derived cell it is, if it is one."""
    genotype: Any
    rounds: int
    """How many rounds it took part in."""
    steps: int
    seconds: float
    """CPU seconds that the steps of this candidate took."""
    validation_error: float | None
    """Validation error in percent after its last round; None if it was the only candidate."""
    validation_loss: float | None


@dataclass(frozen=True)
class AnswerRecord:
    """The answer as `result.json` has it, beside its genotype."""

    rule: AnswerRule
    """Rule by which the group answers: the key `search.answer`."""
    learner: int | None
    """The learner whose cell it is, from 0; None for a cell of all learners together."""
    sentence: str
    """Sentence that says why this cell is the answer."""
    candidates: list[CandidateRecord] | None = None
    """All candidates of a play-off."""
    seconds: float | None = None
    """What the play-off took, which is part of the search's seconds."""

    @property
    def whose(self) -> str:
        """Whose cell it is, in words."""
        return self.rule if self.learner is None else f"learner {self.learner}"


@dataclass(frozen=True)
class Answer:
    """The cell that a search gives, and why."""

    genotype: Genotype
    record: AnswerRecord


@dataclass(frozen=True)
class Finalist:
    """A learner at the end of a search: all that the rules look at."""

    searcher: Searcher
    genotype: Genotype
    validation_loss: float
    """Loss of W on all validation images."""
    derived_error: float | None = None
    """Error of the derived cell with the weights W, on all validation images; None if the rule does not need it."""

    @property
    def scores(self) -> dict[str, Tensor]:
        """Its score of every operation, by kind of cell."""
        return self.searcher.scores

    @property
    def most_skips(self) -> int | None:
        """Skip connections that its method allows; None: any number."""
        return self.searcher.relaxed.method.most_skips


def give_answer(rule: AnswerRule, finalists: Sequence[Finalist]) -> Answer:
    """Return the answer of the group by a rule that needs no training; a play-off is a job of its own.

    With one learner each of these rules gives that learner's cell.
    """
    return _RULES[rule](finalists)


def retained_learner(finalists: Sequence[Finalist]) -> int:
    """Return the learner with the lowest loss on all validation images, of equals the first."""
    return min(range(len(finalists)), key=lambda k: finalists[k].validation_loss)


def retained_record(learner: int) -> AnswerRecord:
    """Return what the rule of the paper says, also for results of versions that had no other."""
    return AnswerRecord(
        "retained", learner, f"learner {learner} is retained: it has the lowest loss on all validation images"
    )


def _retained(finalists: Sequence[Finalist]) -> Answer:
    learner = retained_learner(finalists)
    return Answer(finalists[learner].genotype, retained_record(learner))


def _by_derived_error(finalists: Sequence[Finalist]) -> Answer:
    """Answer by the learner whose derived cell has the lowest error; of equals by lower validation loss."""
    errors = [each.derived_error for each in finalists]
    known = [error for error in errors if error is not None]
    assert len(known) == len(finalists)  # measured beforehand, because the rule needs them
    learner = min(range(len(finalists)), key=lambda k: (known[k], finalists[k].validation_loss))
    sentence = (
        f"learner {learner} answers by derived-error: its derived cell has the lowest error on all validation images "
        f"with the shared weights, {known[learner]:.2f} %"
    )
    return Answer(finalists[learner].genotype, AnswerRecord("derived-error", learner, sentence))


def _consensus(finalists: Sequence[Finalist]) -> Answer:
    """Answer by the method's own derivation from the mean of the learners' scores (`mean_scores` defines it)."""
    check_answer("consensus", _learners(finalists))
    genotype, learners = (
        consensus_of(finalists)[0],
        "1 learner" if len(finalists) == 1 else f"{len(finalists)} learners",
    )
    same = [f"{k}" for k, each in enumerate(finalists) if each.genotype == genotype]
    as_well = f"; learner {' and '.join(same)} alone would give the same cell" if same else ""
    sentence = f"consensus: the cell is derived from the mean of the scores of {learners}{as_well}"
    return Answer(genotype, AnswerRecord("consensus", None, sentence))


def consensus_of(finalists: Sequence[Finalist]) -> tuple[Genotype, dict[str, Tensor]]:
    """Return the cell that the mean of the learners' scores gives, and that mean."""
    mean, first = mean_scores([each.scores for each in finalists]), finalists[0].searcher.relaxed
    alone = len(finalists) == 1
    return finalists[0].genotype if alone else first.method.derive_from(first.space, mean), mean


def has_consensus(finalists: Sequence[Finalist]) -> bool:
    """Return whether a mean of the learners' scores is meaningful."""
    try:
        check_answer("consensus", _learners(finalists))
    except ValueError:
        return False
    return True


def _learners(finalists: Sequence[Finalist]) -> list[tuple[Space, Method]]:
    return [(each.searcher.relaxed.space, each.searcher.relaxed.method) for each in finalists]


_RULES: dict[AnswerRule, Callable[[Sequence[Finalist]], Answer]] = {
    "retained": _retained,
    "derived-error": _by_derived_error,
    "consensus": _consensus,
}


def check_answer(rule: AnswerRule, learners: Sequence[tuple[Space, Method]]) -> None:
    """Refuse a rule that cannot answer for such learners: before the search, not after it."""
    if rule != "consensus" or len(learners) == 1:
        return
    spaces = list(dict.fromkeys(_space_in_words(space) for space, _ in learners))
    if len(spaces) > 1 or any(space.kinds != learners[0][0].kinds for space, _ in learners):
        raise ValueError(
            "search.answer: a consensus is a mean of scores, so all learners must search one space and derive "
            "alike, but "
            f"they have {' and '.join(spaces)}; use retained, derived-error or play-off"
        )
    first = learners[0][1]
    for _, method in learners:
        if _derivation(method) != _derivation(first):
            raise ValueError(
                "search.answer: a consensus is a mean of scores, so all learners must score operations and "
                f"derive cells in the same way, but {_method_in_words(first)} and {_method_in_words(method)} do not; "
                "use retained, derived-error or play-off"
            )
        if type(method).derive is not Method.derive:
            raise ValueError(
                f"search.answer: a consensus derives a cell from scores, but {method.name} derives it from more than "
                "scores (it overrides derive instead of derive_from); use retained, derived-error or play-off"
            )


def _space_in_words(space: Space) -> str:
    habit = getattr(space, "derivation", None)  # where a space can derive in several ways
    return space.name if habit is None else f"{space.name} (derive: {habit})"


def _derivation(method: Method) -> tuple[object, ...]:
    """Return everything that determines how a method derives a cell from an architecture."""
    own = type(method)
    return own.scores, own.derive, own.derive_from, method.rule, method.most_skips


def _method_in_words(method: Method) -> str:
    skips = "" if method.most_skips is None else f" with at most {method.most_skips} skips"
    return f"{method.name}{skips}"
