"""R-DARTS: Zela et al., Understanding and Robustifying DARTS, ICLR 2020 (arXiv:1909.09656)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from smallgroup.methods.curvature import largest_eigenvalue
from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Progress, Rollback, Stop
from smallgroup.methods.method import Method
from smallgroup.methods.sampling import dropped
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_counts, check_number
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.space import Choice, EdgeParts

_EDGE = "edge"
"""What the transform of a whole edge goes by."""


@dataclass
class RDarts(Method):
    """DARTS that watches the curvature of the validation loss, with drop path as an option; weight decay is the other.

    Every `every` epochs the largest eigenvalue of the Hessian in alpha is taken. If its mean over `window` measurements
    is `factor` times what it was `back` measurements before, the search ends with the architecture of then (early), or
    goes back there and on with `growth` times the weight decay (adaptive).
    """

    name: ClassVar[str] = "r-darts"
    transformed: ClassVar[frozenset[str] | None] = frozenset({_EDGE})

    stopping: Literal["none", "early", "adaptive"] = "early"
    """What a rise of the curvature does: nothing, end the search, or go back and raise the weight decay."""
    drop_path: float = 0.0
    """Probability with which an image's edge is dropped in the last epoch, growing linearly; published: up to 0.6."""
    every: int = 2
    """Epochs from one measurement of the curvature to the next."""
    first: int = 10
    """Epoch before which the search neither stops nor goes back."""
    window: int = 5
    """Measurements in each of the two means that are compared."""
    back: int = 4
    """How many measurements the earlier of the two means lies behind the later one."""
    factor: float = 1.3
    """Ratio of the later mean to the earlier one that counts as collapse."""
    growth: float = 10.0
    """Factor of the weight decay each time an adaptive search goes back."""
    most_decay: float = 0.03
    """Largest weight decay; once it cannot be raised any more, an adaptive search no longer goes back."""
    products: int = 20
    """Hessian products of a measurement, each about as long as two steps of the weights."""

    def __post_init__(self) -> None:
        check_counts(every=self.every, window=self.window, back=self.back, products=self.products)
        check_counts(first=self.first, at_least=0)
        check_number("factor", self.factor, positive=True)
        check_number("growth", self.growth, positive=True)
        check_number("most_decay", self.most_decay)
        if not 0 <= self.drop_path < 1:
            raise ValueError(f"drop_path must be at least 0 and below 1, but got {self.drop_path}")

    @property
    def reach(self) -> int:
        """As far back as the measurement that an adaptive search compares with."""
        return self.back * self.every if self.stopping == "adaptive" else 0

    def schedule(self, progress: Progress) -> None:
        """Drop more from epoch to epoch."""
        self.state["drop_path"] = torch.tensor(progress.between(0.0, self.drop_path), dtype=torch.float64)

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        """Build an edge that can be dropped as a whole."""
        return _DroppedEdge(parts) if self.drop_path else MixedEdge(parts)

    def transform(self, operation: str, output: Tensor, generator: torch.Generator, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Apply drop path, except in evaluation."""
        rate = float(self.state.get("drop_path", 0.0))
        return output if phase is None else dropped(output, rate, (len(output), 1, 1, 1), generator)

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        """Measure, and see whether the curvature has risen."""
        number = epoch.progress.epoch
        if self.stopping == "none" or epoch.validation_loss is None or (number + 1) % self.every:
            return Continue()
        found = (
            largest_eigenvalue(epoch.validation_loss, epoch.architecture, self.products) + self.optimizer.weight_decay
        )
        known = self.state.get("eigenvalues", torch.empty(0, 2, dtype=torch.float64))
        known = torch.cat([known, torch.tensor([[number, found]], dtype=torch.float64)])
        self.state["eigenvalues"] = known
        risen = self._risen(known[:, 1])
        if risen is None or number < self.first:
            return Continue()
        reason = f"the largest eigenvalue has risen by a factor of {risen:.2f}"
        then, decay = int(known[-1 - self.back, 0]), epoch.settings.get("weight_decay", 0.0)
        if self.stopping == "early":
            return Stop(reason, then)
        raised = min(self.growth * decay, self.most_decay)
        if raised <= decay * (1 + 1e-6):  # ten times 0.003 is a little below 0.03
            return Continue()
        return Rollback(reason, then, {"weight_decay": raised})

    def _risen(self, values: Tensor) -> float | None:
        """Return the ratio of the mean over the last measurements to that of some time before, if it is too large."""
        if len(values) <= self.back:
            return None
        now, then = values[-self.window :].mean(), values[: -self.back][-self.window :].mean()
        return float(now / then) if float(now) > self.factor * float(then) > 0 else None


class _DroppedEdge(MixedEdge):
    """A mixed edge whose output goes through the transform as a whole."""

    def finish(self, mixed: Tensor, inputs: Tensor, choice: Choice) -> Tensor:  # noqa: ARG002
        """Drop the output of the edge; a derived cell in the supernet has no transform."""
        return mixed if choice.transform is None else choice.transform(_EDGE, mixed)
