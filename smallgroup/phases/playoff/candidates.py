"""Who takes part in a play-off: the learners' cells, their consensus, and the cells that score next best."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from torch import Tensor

from smallgroup.phases.playoff.job import Candidate
from smallgroup.spaces import definition_of
from smallgroup.spaces.choices import neighbors, score
from smallgroup.spaces.genotype import Genotype


def distinct(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    """Return the candidates, without those that are the same function as an earlier one."""
    found: dict[object, Candidate] = {}
    for candidate in candidates:
        cell = candidate.genotype
        found.setdefault((cell.space, definition_of(cell.space).form(cell)), candidate)
        if len(found) == most:
            break
    return list(found.values())


def next_best(genotype: Genotype, scores: Mapping[str, Tensor]) -> Iterator[Genotype]:
    """Yield cells by falling score, from a derived one on: each has the next best operation on an edge of another."""
    order = count()
    waiting = [(-score(genotype, scores), next(order), genotype)]
    seen = {genotype}
    while waiting:
        _, _, best = heapq.heappop(waiting)
        if best != genotype:
            yield best
        for other in neighbors(best, scores):
            if other not in seen:
                seen.add(other)
                heapq.heappush(waiting, (-score(other, scores), next(order), other))


def in_turn(sources: Sequence[Iterator[Candidate]]) -> Iterator[Candidate]:
    """Yield one candidate of each source in turn, until all are exhausted."""
    waiting = list(sources)
    while waiting:
        for source in list(waiting):
            candidate = next(source, None)
            if candidate is None:
                waiting.remove(source)
            else:
                yield candidate
