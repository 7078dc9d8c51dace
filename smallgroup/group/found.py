"""What the stages of one iteration have found so far, learner by learner."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor

from smallgroup.group.learner import Learner
from smallgroup.group.objectives import Objective
from smallgroup.group.optimizers import Move
from smallgroup.group.report import TERMS, LearnerReport, StepReport
from smallgroup.group.tensors import total, zeros
from smallgroup.runtime import Phase


class Sensitivity(NamedTuple):
    """The sensitivity s_j: how learner j, moved along its direction, responds to changes of what it is handed."""

    to: Mapping[int, Tensor]
    """A table per teacher; of a loss that is linear in what is handed over, the same for all of them."""
    change: Tensor | None
    """The change of its own table along its direction, in the joint form."""


class Found:
    """Results alone, under the paper's symbols: `problem` computes from them, `checks` decides what gets in."""

    def __init__(self, learners: Sequence[Learner]) -> None:
        everyone = range(len(learners))
        self._learners = learners
        self.own_p: dict[int, tuple[Tensor, Tensor]] = {}
        """The outputs that labels are made of, and p, of the learners that are computed here."""
        self.own_s: dict[int, list[Tensor]] = {}
        """The tables of their sensitivities, as far as they are known."""
        self.v: dict[int, Move] = {}
        self.p: list[Tensor] = []
        self.outputs: list[Tensor] = []
        """What p was made of; kept in the joint form, where peers are measured by it."""
        self.o: dict[int, dict[Phase, Objective]] = {}
        self.w: dict[int, Move] = {}
        self.s: list[Sensitivity | None] = [None for _ in everyone]
        self.terms: list[dict[str, dict[str, Tensor]]] = [{} for _ in everyone]
        self.losses: list[dict[str, float]] = [{} for _ in everyone]
        self.skipped: list[dict[str, str]] = [{} for _ in everyone]
        self.seconds: dict[int, float] = {}

    @contextmanager
    def timed(self, stage: int) -> Iterator[None]:
        """Note how long a stage takes."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start

    def report(self, step: int) -> StepReport:
        """Return what is left of the iteration when it is over."""
        return StepReport(step, [self._report(k) for k in range(len(self._learners))], self.seconds)

    def _report(self, k: int) -> LearnerReport:
        losses, terms = self.losses[k], {}
        if "val" in losses:
            terms = {term: self.terms[k].get(term) or zeros(self._learners[k].architecture) for term in TERMS}
        return LearnerReport(
            v_loss=losses.get("v"),
            w_loss=losses.get("w"),
            w_unlabeled_loss=losses.get("w_unlabeled"),
            validation_loss=losses.get("val"),
            terms=terms,
            gradient=total(terms.values()) if terms else {},
            soft_labels=self.p[k] if self.p else None,
            skipped=self.skipped[k],
        )
