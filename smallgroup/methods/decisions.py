"""What a method sees at the end of an epoch, and the decisions it may return."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Progress:
    """The progress of a learner's search: `epoch` of `epochs` and `step` of `steps` of its stage, all from 0.

    A method without stages has one, the whole search.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    stage: int = 0
    frozen: int = 0
    """The epoch of the stage in which the architecture begins to move."""

    @property
    def by_epoch(self) -> float:
        """Return 0 in the first epoch, 1 in the last, and shares in between."""
        return self.epoch / max(1, self.epochs - 1)

    def between(self, first: float, last: float) -> float:
        """Return a number that goes linearly from `first` in the first epoch to `last` in the last."""
        return first + (last - first) * self.by_epoch

    @property
    def last_epoch(self) -> bool:
        """Return whether the stage ends with this epoch."""
        return self.epoch + 1 == self.epochs


class Measured(NamedTuple):
    """The quality of W on validation images. A higher error is worse, and at equal error a higher loss."""

    error: float
    """Validation error in percent."""
    loss: float


@dataclass(frozen=True)
class EpochEnd:
    """The state that a method can see at the end of an epoch."""

    progress: Progress
    architecture: "Mapping[str, Tensor]"
    """The architecture in main memory, as masks are, wherever the learner computes."""
    genotype: Any
    statistics: Mapping[str, float] = field(default_factory=dict)
    validation_loss: "Callable[[Mapping[str, Tensor]], Tensor] | None" = None
    """The validation loss at another architecture, twice differentiable: for monitors of its curvature. It takes
    architectures in main memory and on the learner's device."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """What `Rollback` may change, as it is now: the weight decay of V and W."""
    measure: Callable[[], Measured] | None = None
    """Error and loss on the validation images that metrics are of, as the method mixes at the time of the call."""


@dataclass(frozen=True)
class Continue:
    """Decision of a method at the end of an epoch: continue the search unchanged."""


@dataclass(frozen=True)
class Stop:
    """Decision of a method: end the search of this learner; its genotype is that of `epoch` (None: the current one)."""

    reason: str
    epoch: int | None = None


@dataclass(frozen=True)
class Rollback:
    """Decision of a method: go back to the end of `epoch`, and continue with settings such as {"weight_decay": 0.003}.

    Weights, architectures, moments, schedules, random numbers and the batches of all learners are those of that epoch.
    `settings` are those of the learner that asks; see `EpochEnd.settings`. `Method.reach` says how far back it may go.
    """

    reason: str
    epoch: int
    settings: Mapping[str, float]


@dataclass(frozen=True)
class Rebuild:
    """Decision of a method: build the supernet again with the method's masks, and start a new stage.

    Weights are drawn anew, and so is the architecture unless `keep_architecture`; both V and W follow.
    """

    space: Mapping[str, int] = field(default_factory=dict)
    """Fields of the space that change, such as {"cells": 11}."""
    keep_architecture: bool = False


Decision = Continue | Stop | Rollback | Rebuild
