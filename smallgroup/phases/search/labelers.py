"""Learners of a finished search as labelers of another: the paper's ablation of separate stages, Eqs. (13, 14)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from smallgroup.group.learner import Frozen
from smallgroup.phases.search.learners import Searcher, of_learner
from smallgroup.runtime.checkpoints import Checkpoint


@dataclass(frozen=True)
class Labelers:
    """One per learner; they stay what they are."""

    frozen: tuple[Frozen, ...]
    digest: str
    """A text that changes with their weights and architectures."""


def labelers_of(searchers: Sequence[Searcher], last_step: int, found: Checkpoint) -> Labelers:
    """Build labelers from a finished search: new `searchers` with the tensors of its last checkpoint."""
    digest = hashlib.sha256()
    for k, searcher in enumerate(searchers):
        searcher.load_state(of_learner(found.tensors, k))
        searcher.prepare(last_step)
        learner = searcher.learner
        for name, tensor in sorted({**learner.w, **learner.architecture}.items()):
            digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return Labelers(tuple(searcher.learner.frozen() for searcher in searchers), digest.hexdigest()[:16])


def check_same_labelers(mine: Labelers | None, saved: object) -> None:
    """Refuse to resume with other labelers than the search started with."""
    own = None if mine is None else mine.digest
    if own != saved:
        raise ValueError(
            f"a search must be resumed with the labelers it started with, but they were {str(saved)[:20]} and are {own}"
        )
