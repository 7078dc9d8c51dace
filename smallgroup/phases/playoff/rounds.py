"""Successive halving: how long each candidate trains, and which ones continue."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log2


@dataclass(frozen=True)
class CandidateTurn:
    """A candidate trains for a number of steps in a round, from where it stopped in the round before."""

    round: int
    candidate: int
    steps: int


@dataclass(frozen=True)
class Halving:
    """A budget shared equally among the rounds, and in each round among the candidates that are left.

    Of n candidates ceil(n / 2) go on, until one is left after ceil(log2(n)) rounds.
    """

    budget: float
    costs: Sequence[float]
    """What a step of each candidate takes from the budget: seconds, or 1 where steps are counted."""
    look: float = 0.0
    """What the look at the validation images after every turn takes, in steps of the candidate."""

    @property
    def rounds(self) -> int:
        """How many there are; none if there is nobody to compare with."""
        return ceil(log2(len(self.costs)))

    def turns(self, number: int, left: Sequence[int]) -> list[CandidateTurn]:
        """Return the turns of a round, one for each candidate that is left; each has at least one step."""
        share = self.budget / self.rounds / len(left)
        # The hair keeps a quotient such as 2.9999999 from losing a whole step.
        return [CandidateTurn(number, one, max(1, int(share / self.costs[one] - self.look + 1e-9))) for one in left]


def worth_trying(halving: Halving, least_steps: int) -> int:
    """Return how many candidates, in their order, take part: those that get enough first steps, at least two.

    Whom a few steps compare is left to chance, so that fewer candidates with more steps each are better.
    """
    number = len(halving.costs)
    while number > 2:
        some = replace(halving, costs=halving.costs[:number])
        if min(turn.steps for turn in some.turns(0, range(number))) >= least_steps:
            break
        number -= 1
    return number


def going_on(scores: Sequence[tuple[int, float, float]]) -> list[int]:
    """Return the better half of (candidate, error, loss), rounded up, in the order of the candidates; ties by loss."""
    ranked = sorted(scores, key=lambda score: (score[1], score[2], score[0]))
    return sorted(candidate for candidate, _, _ in ranked[: (len(ranked) + 1) // 2])
