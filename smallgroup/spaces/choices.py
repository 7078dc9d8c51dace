"""Genotypes beside the derived one: drawn at random, with one other operation, or from the mean of several scores."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from smallgroup.spaces import SPACES
from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, Edge
from smallgroup.spaces.genotypes import AnyGenotype, space_of
from smallgroup.spaces.nas_bench_201.cell import Cell
from smallgroup.spaces.space import Rule, Space

Scores = Mapping[str, Tensor]
"""By kind of cell, [edges, operations]: how good each operation is held to be; -inf for what has been removed."""


def random_genotype(space: str, generator: torch.Generator) -> AnyGenotype:
    """Return a cell derived from random scores: like a derived cell, it has no `none` and no dead parts."""
    made: Space = SPACES[space]()
    scores = {name: torch.rand(kind.shape, generator=generator) for name, kind in made.kinds.items()}
    genotype: AnyGenotype = made.derive(scores, Rule("top2"))
    return genotype


def score(genotype: AnyGenotype, scores: Scores) -> float:
    """The sum over its edges of the log of the chosen operation's share: a product of probabilities, as it were."""
    space: Space = SPACES[space_of(genotype)]()
    total = 0.0
    for kind, chosen in space.chosen(genotype).items():
        shares = _shares(scores[kind])
        total += sum(math.log(max(share, 1e-30)) for share in shares[chosen.bool()].tolist())
    return total


def neighbours(genotype: AnyGenotype, scores: Scores) -> Iterator[AnyGenotype]:
    """For every edge, the genotype with the next best operation there."""
    if isinstance(genotype, Cell):
        table, operations = scores["cell"], SPACES["nas-bench-201"].kinds["cell"].operations
        for edge, operation in enumerate(genotype.operations):
            other = _next_best(table[edge], operations, operation)
            if other is not None:
                yield Cell((*genotype.operations[:edge], other, *genotype.operations[edge + 1 :])).pruned()
        return
    yield from (replace(genotype, normal=cell) for cell in _cells(genotype.normal, scores["normal"]))
    yield from (replace(genotype, reduce=cell) for cell in _cells(genotype.reduce, scores["reduce"]))


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


def _cells(cell: CellGenotype, table: Tensor) -> Iterator[CellGenotype]:
    kind = SPACES["darts"].kinds["normal"]
    for node, edges in enumerate(cell.nodes):
        for place, edge in enumerate(edges):
            row = table[kind.edges.index((edge.source, node + INPUTS))]
            other = _next_best(row, kind.operations, edge.operation)
            if other is not None:
                changed = (*edges[:place], Edge(other, edge.source), *edges[place + 1 :])
                yield replace(cell, nodes=(*cell.nodes[:node], changed, *cell.nodes[node + 1 :]))


def _next_best(row: Tensor, operations: tuple[str, ...], present: str) -> str | None:
    """Return the real operation that comes after the present one; None if nothing is left."""
    scores = dict(zip(operations, row.tolist(), strict=True))
    below = [
        (value, name)
        for name, value in scores.items()
        if name not in (present, "none") and -math.inf < value <= scores[present]
    ]
    return max(below)[1] if below else None


def _shares(table: Tensor) -> Tensor:
    kept = table.double().masked_fill(table == -math.inf, 0.0).clamp(min=0)
    return kept / kept.sum(dim=1, keepdim=True).clamp(min=1e-30)
