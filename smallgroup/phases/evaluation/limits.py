"""A cell that fits: where the retained one makes too large a network, the best of those beside it."""

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
from smallgroup.spaces.choices import neighbours, score
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

    def cells(self) -> Iterator[AnyGenotype]:
        """The derived cell, and those with the next best operation on one edge that its method could have derived."""
        yield self.genotype
        for genotype in neighbours(self.genotype, self.scores):
            if self.most_skips is None or genotype.skips <= self.most_skips:
                yield genotype


@dataclass(frozen=True)
class Choice:
    """The cell that is trained; where limits had a say in it, whose it is and what was given up for it."""

    genotype: AnyGenotype
    learner: int | None = None
    sentence: str = ""


def choose(
    architectures: Sequence[Architecture],
    retained: int,
    limits: Limits,
    design: Callable[[AnyGenotype], NetworkDesign],
) -> Choice:
    """The retained cell if it fits; else, of all learners' cells and their neighbours, the one with the best score."""
    first = architectures[retained].genotype
    size = _size(first, design)
    if limits.allow(size):
        return Choice(first, retained, f"the retained cell fits: {size[0]:,} parameters, {size[1]:,} multiply-adds")
    own = score(first, architectures[retained].scores)
    found = [
        (score(genotype, each.scores), k, genotype) for k, each in enumerate(architectures) for genotype in each.cells()
    ]
    fewest = size
    for value, k, genotype in sorted(found, key=lambda entry: (-entry[0], entry[1])):
        mine = _size(genotype, design)
        fewest = min(fewest[0], mine[0]), min(fewest[1], mine[1])
        if limits.allow(mine):
            # Learners are retained by their loss, so that a cell of another one may have the higher score.
            lower = f"{own - value:.4g} lower" if value <= own else f"{value - own:.4g} higher"
            return Choice(
                genotype,
                k,
                f"the retained cell has {size[0]:,} parameters and {size[1]:,} multiply-adds, more than {limits}; in "
                f"its place a cell of learner {k} with {mine[0]:,} and {mine[1]:,} is taken, whose log score is {lower}"
                f": {one_line(genotype)}",
            )
    raise ValueError(
        f"one of the learners' cells or of those with one other operation must have at most {limits}, but all "
        f"{len(found)} have {fewest[0]:,} parameters and {fewest[1]:,} multiply-adds at least; a smaller "
        "training.network makes all of them smaller"
    )


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
