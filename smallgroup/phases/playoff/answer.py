"""From the learners to candidates, and from the play-off to the group's answer."""

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from smallgroup.phases.playoff.candidates import distinct, in_turn, next_best
from smallgroup.phases.playoff.job import Candidate, PlayOffJob
from smallgroup.phases.search.answer import Answer, AnswerRecord, CandidateRecord, Finalist, consensus_of, has_consensus
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import to_plain


def candidates_of(finalists: Sequence[Finalist], most: int) -> list[Candidate]:
    """Return each learner's cell, their consensus, and then the next best cells by score.

    The scores are those of all learners together where they have a consensus, else those of each in turn.
    """
    own = [Candidate(f"learner {k}", each.genotype, k) for k, each in enumerate(finalists)]
    if has_consensus(finalists):
        genotype, scores = consensus_of(finalists)
        others = [Candidate("consensus", genotype)]
        beside = [_beside("consensus", genotype, scores, finalists[0].most_skips)]
    else:
        others = []
        beside = [
            _beside(f"learner {k}", each.genotype, each.scores, each.most_skips) for k, each in enumerate(finalists)
        ]
    return distinct([*own, *others, *_first(in_turn(beside), 8 * most)], most)


def _beside(name: str, genotype: Genotype, scores: Mapping[str, Tensor], most_skips: int | None) -> Iterator[Candidate]:
    for other in next_best(genotype, scores):
        if most_skips is None or other.skips <= most_skips:
            yield Candidate(f"next to {name}", other)


def _first(candidates: Iterator[Candidate], most: int) -> Iterator[Candidate]:
    """Yield no more candidates than needed: in the DARTS space there are very many, and each takes a while to find."""
    for _, candidate in zip(range(most), candidates, strict=False):
        yield candidate


def answer_of(job: PlayOffJob, seconds: float) -> Answer:
    """Return the winner of the play-off, with the standings of all candidates."""
    winner = job.candidates[job.winner]
    standings = [
        CandidateRecord(
            one.source,
            one.learner,
            to_plain(one.genotype),
            standing.round + 1,
            standing.steps,
            standing.seconds,
            standing.validation_error,
            standing.validation_loss,
        )
        for one, standing in zip(job.candidates, job.standings, strict=True)
    ]
    error = job.standings[job.winner].validation_error
    how = "" if error is None else f" with {error:.2f} % of the validation images wrong"
    sentence = (
        f"play-off: the cell of {winner.source} is the best of {len(job.candidates)} that were trained briefly from "
        f"scratch{how}"
    )
    return Answer(winner.genotype, AnswerRecord("play-off", winner.learner, sentence, standings, seconds))
