"""A cell that fits: where that of the answer makes too large a network, the best of those beside it."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from smallgroup.networks import NetworkDesign, build_network, multiply_adds, parameters
from smallgroup.phases.evaluation.config import Limits
from smallgroup.runtime.files import read_regular
from smallgroup.spaces.choices import mean_scores, neighbours, score
from smallgroup.spaces.drawing import one_line
from smallgroup.spaces.genotypes import AnyGenotype, from_plain

LARGEST = 10_000_000
"""Bytes of the file of architectures."""


@dataclass(frozen=True)
class Architecture:
    """What a learner found, and what it holds of every operation."""

    genotype: AnyGenotype
    scores: dict[str, Tensor]
    most_skips: int | None = None
    """Skip connections that its method allows; None: any number."""
    joint: bool = False
    """Whether it is no learner's, but that of all of them together: the mean of their scores."""

    def cells(self) -> Iterator[AnyGenotype]:
        """The derived cell, and those with the next best operation on one edge that its method could have derived."""
        yield self.genotype
        for genotype in neighbours(self.genotype, self.scores):
            if self.most_skips is None or genotype.skips <= self.most_skips:
                yield genotype


@dataclass(frozen=True)
class Choice:
    """The cell that is trained; where limits had a say in it, whose it is and what was given up for it.

    `learner` is None also where it is a cell of the consensus.
    """

    genotype: AnyGenotype
    learner: int | None = None
    sentence: str = ""


def choose(
    architectures: Sequence[Architecture],
    answer: int,
    limits: Limits,
    design: Callable[[AnyGenotype], NetworkDesign],
) -> Choice:
    """The cell of the answer if it fits; else, of all cells and their neighbours, the one with the best score.

    Args:
        architectures: those of the learners in their order; the joint one, if there is one, comes last.
        answer: which of them is the answer of the search.
        limits: what fits.
        design: the network that a cell makes.
    """
    first = architectures[answer].genotype
    named = "the cell of the consensus" if architectures[answer].joint else "the cell of the search"
    size = _size(first, design)
    if limits.allow(size):
        whose = _whose(architectures, answer)
        return Choice(first, whose, f"{named} fits: {size[0]:,} parameters, {size[1]:,} multiply-adds")
    own = score(first, architectures[answer].scores)
    found = [
        (score(genotype, each.scores), k, genotype) for k, each in enumerate(architectures) for genotype in each.cells()
    ]
    fewest = size
    for value, k, genotype in sorted(found, key=lambda entry: (-entry[0], entry[1])):
        mine = _size(genotype, design)
        fewest = min(fewest[0], mine[0]), min(fewest[1], mine[1])
        if limits.allow(mine):
            # The answer is not chosen by this score, so that a cell of another learner may have a higher one.
            whose = _whose(architectures, k)
            owner = "the consensus" if whose is None else f"learner {whose}"
            lower = f"{own - value:.4g} lower" if value <= own else f"{value - own:.4g} higher"
            return Choice(
                genotype,
                whose,
                f"{named} has {size[0]:,} parameters and {size[1]:,} multiply-adds, more than {limits}; in "
                f"its place a cell of {owner} with {mine[0]:,} and {mine[1]:,} is taken, whose log score is {lower}"
                f": {one_line(genotype)}",
            )
    raise ValueError(
        f"one of the learners' cells or of those with one other operation must have at most {limits}, but all "
        f"{len(found)} have {fewest[0]:,} parameters and {fewest[1]:,} multiply-adds at least; a smaller "
        "training.network makes all of them smaller"
    )


def _whose(architectures: Sequence[Architecture], k: int) -> int | None:
    return None if architectures[k].joint else k


def joint_architecture(architectures: Sequence[Architecture], genotype: AnyGenotype) -> Architecture:
    """Return what learners found together: their consensus, and the mean of their scores."""
    scores = mean_scores([each.scores for each in architectures])
    return Architecture(genotype, scores, architectures[0].most_skips, joint=True)


class TooLargeError(ValueError):
    """A cell makes too large a network."""


def check_fits(genotype: AnyGenotype, limits: Limits, design: Callable[[AnyGenotype], NetworkDesign]) -> None:
    """Refuse a cell by itself that is too large."""
    size = _size(genotype, design)
    if not limits.allow(size):
        raise TooLargeError(
            f"a network must have at most {limits}, but this one has {size[0]:,} parameters and {size[1]:,} "
            "multiply-adds; only of a search there are other cells to choose from"
        )


def read_architectures(path: Path) -> list[Architecture]:
    """What the file of a search says."""
    content = read_regular(path, LARGEST)
    try:
        learners = json.loads(content)["learners"]
        found = [
            Architecture(
                from_plain(each["space"], each["genotype"]),
                {kind: _table(rows) for kind, rows in each["scores"].items()},
                None if each.get("most_skips") is None else int(each["most_skips"]),
            )
            for each in learners
        ]
        for each in found:
            score(each.genotype, each.scores)  # fails where tables do not belong to the genotype
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, RecursionError):
        raise ValueError(f"{path} must hold the architectures of a search, but it does not") from None
    if not found:
        raise ValueError(f"{path} must hold the architectures of a search, but there is none in it")
    return found


def _table(rows: Sequence[Sequence[float | None]]) -> Tensor:
    return torch.tensor([[-math.inf if value is None else value for value in row] for row in rows])


def _size(genotype: AnyGenotype, design: Callable[[AnyGenotype], NetworkDesign]) -> tuple[int, int]:
    made = design(genotype)
    network = build_network(genotype, made, device="meta")
    return parameters(network), multiply_adds(network, made.image_size, made.image_channels)
