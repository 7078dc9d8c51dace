"""Genotypes beside the derived one: drawn at random, with one other operation, or from the mean of several scores."""

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from smallgroup.spaces import definition_of, definitions
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.kinds import Kind, Rule
from smallgroup.spaces.space import Space

Scores = Mapping[str, Tensor]
"""By kind of cell, [edges, operations]: how good each operation is held to be; -inf for what has been removed."""


def random_genotype(space: str, generator: torch.Generator) -> Genotype:
    """Return a cell derived from random scores: like a derived cell, it has no `none` and no dead parts."""
    return definition_of(space).random(generator)


def known_genotype(name: str, space: str) -> Genotype:
    """Return a well-known genotype, such as `resnet`: one of the space, or of the first space that has it."""
    for definition in (definition_of(space), *definitions()):
        if name in definition.baselines:
            return definition.from_plain(definition.baselines[name])
    raise ValueError(f"a registered space must know {name}, but none does")


def score(genotype: Genotype, scores: Scores) -> float:
    """Return the sum over the edges of the log of the chosen operation's share: the log of a probability."""
    total = 0.0
    for kind, chosen in definition_of(genotype.space).at_any_size().chosen(genotype).items():
        shares = _shares(scores[kind])
        # A removed operation has no share; its logarithm must still be a number to sort by.
        total += sum(math.log(max(share, 1e-30)) for share in shares[chosen.bool()].tolist())
    return total


def neighbors(genotype: Genotype, scores: Scores) -> Iterator[Genotype]:
    """Return for every edge the genotype with the next best operation there."""
    return definition_of(genotype.space).neighbors(genotype, scores)


def mean_scores(scores: Sequence[Scores]) -> dict[str, Tensor]:
    """Return the mean over learners of the score of each operation, in double precision, by kind of cell.

    Scores are what `Method.scores` gives: shares between 0 and 1 (a softmax over the operations of an edge; in PC-DARTS
    times that of the edge; in FairDARTS sigmoids). Shares are averaged, not logits, so that every learner counts the
    same however sharp its choice is. An operation that some learners have removed counts as 0 with those; one that all
    have removed stays removed. The order of the learners does not matter, not even for rounding.
    """
    found = {}
    for kind in scores[0]:
        tables = torch.stack([each[kind].detach().cpu().double() for each in scores])
        removed = (tables == -math.inf).all(dim=0)
        shares = tables.masked_fill(tables == -math.inf, 0.0).sort(dim=0).values
        found[kind] = shares.mean(dim=0).masked_fill(removed, -math.inf)
    return found


# What a space does that says nothing else: a genotype is what its own chosen operations derive.


def from_random_scores(space: Space, generator: torch.Generator) -> Genotype:
    """Derive a genotype from scores that are drawn uniformly."""
    scores = {name: torch.rand(kind.shape, generator=generator) for name, kind in space.kinds.items()}
    return space.derive(scores, Rule("top2"))


def with_other_operation(space: Space, genotype: Genotype, generator: torch.Generator) -> Genotype:
    """Derive a genotype that has another operation on an edge, both drawn uniformly."""
    chosen = space.chosen(genotype)
    places = [(kind, edge) for kind, table in chosen.items() for edge in table.any(dim=1).nonzero().flatten().tolist()]
    kind, edge = places[int(torch.randint(len(places), (), generator=generator))]
    offered = space.kinds[kind].offers[edge]
    operations = space.kinds[kind].operations
    others = [i for i, name in enumerate(operations) if offered[i] and not chosen[kind][edge, i] and name != "none"]
    return _changed(space, chosen, kind, edge, others[int(torch.randint(len(others), (), generator=generator))])


def options_by_edge(kinds: Mapping[str, Kind]) -> list[tuple[str, int, list[int]]]:
    """Return kind, edge and the columns of the operations but `none` that an edge offers."""
    return [
        (name, edge, [i for i, operation in enumerate(kind.operations) if row[i] and operation != "none"])
        for name, kind in kinds.items()
        for edge, row in enumerate(kind.offers)
    ]


def from_options(space: Space, options: Sequence[int]) -> Genotype:
    """Derive a genotype from one operation for each edge, in the order of `options_by_edge`."""
    scores = {name: torch.zeros(kind.shape) for name, kind in space.kinds.items()}
    for (kind, edge, columns), option in zip(options_by_edge(space.kinds), options, strict=True):
        scores[kind][edge, columns[option]] = 1.0
    return space.derive(scores, Rule("top2"))


def with_next_best(space: Space, genotype: Genotype, scores: Scores) -> Iterator[Genotype]:
    """Yield for every chosen operation the genotype that derives with the next best one in its place."""
    chosen = space.chosen(genotype)
    for kind, table in chosen.items():
        spec = space.kinds[kind]
        for edge, present in table.nonzero().tolist():
            other = next_best_operation(
                scores[kind][edge], spec.operations, spec.operations[present], spec.offers[edge]
            )
            if other is not None:
                yield _changed(space, chosen, kind, edge, spec.operations.index(other))


def _changed(space: Space, chosen: Scores, kind: str, edge: int, operation: int) -> Genotype:
    changed = {name: table.clone() for name, table in chosen.items()}
    changed[kind][edge] = 0.0
    changed[kind][edge, operation] = 1.0
    return space.derive(changed, Rule("top2"))


def next_best_operation(
    row: Tensor, operations: Sequence[str], present: str, offered: Sequence[bool] | None = None
) -> str | None:
    """Return the real operation that comes after the present one by score; None if nothing is left.

    `offered` says which operations the edge chooses from; None: all.
    """
    scores = dict(zip(operations, row.tolist(), strict=True))
    open_to = operations if offered is None else [name for name, may in zip(operations, offered, strict=True) if may]
    below = [
        (scores[name], name)
        for name in open_to
        if name not in (present, "none") and -math.inf < scores[name] <= scores[present]
    ]
    return max(below)[1] if below else None


def _shares(table: Tensor) -> Tensor:
    kept = table.double().masked_fill(table == -math.inf, 0.0).clamp(min=0)
    return kept / kept.sum(dim=1, keepdim=True).clamp(min=1e-30)
