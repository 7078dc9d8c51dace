"""What a step did, learner by learner."""

from collections import Counter
from dataclasses import dataclass, field, replace

from torch import Tensor

from smallgroup.group.tensors import read, unread_norm

TERMS = ("direct", "own", "cross", "label")
"""The four terms of the architecture gradient, in the order in which they are added."""


@dataclass(frozen=True)
class LearnerReport:
    """The losses, norms and skipped terms of one learner in one step. A loss is None if its pass was not needed."""

    v_loss: float | None
    w_loss: float | None
    w_unlabeled_loss: float | None
    """The pseudo-label term of stage 2, lambda included."""
    validation_loss: float | None
    terms: dict[str, dict[str, Tensor]]
    """The four terms of the architecture gradient, each by tensor; empty where stage 3 was not run."""
    gradient: dict[str, Tensor]
    """Their sum: the architecture gradient of this step, before clipping."""
    soft_labels: Tensor | None
    """p_k, what this learner handed to its peers: in classification soft labels, [batch, classes]."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Terms that could not be computed, each with the reason."""

    @property
    def norms(self) -> dict[str, float]:
        """Return the L2 norm of each term."""
        norms = [unread_norm(list(parts.values())) for parts in self.terms.values()]
        return dict(zip(self.terms, read(norms), strict=True))


@dataclass(frozen=True)
class StepReport:
    """The results of a step of the group, learner by learner."""

    step: int
    learners: list[LearnerReport]
    seconds: dict[int, float] = field(default_factory=dict)
    """What each stage took, over all learners."""

    @property
    def skipped(self) -> int:
        """Return how many terms were skipped, over all learners."""
        return sum(len(learner.skipped) for learner in self.learners)


def merged(architectures: StepReport, weights: StepReport) -> StepReport:
    """Merge the reports of a step that was taken in two parts: A first, then V and W."""
    parts = zip(architectures.learners, weights.learners, strict=True)
    learners = [
        replace(
            after,
            validation_loss=before.validation_loss,
            terms=before.terms,
            gradient=before.gradient,
            skipped={**before.skipped, **after.skipped},
        )
        for before, after in parts
    ]
    seconds = Counter(architectures.seconds)
    seconds.update(weights.seconds)
    return StepReport(weights.step, learners, dict(seconds))
