"""A method for smallgroup. The entry point in pyproject.toml registers it: nothing has to be imported by hand."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods import Continue, EpochEnd, Method, Progress


@dataclass
class Cooling(Method):
    """softmax(alpha / T), T = start * 0.95^epoch; once the architecture moves, what falls below a limit is removed."""

    name: ClassVar[str] = "cooling"
    warmup: ClassVar[float] = 0.2

    start_temperature: float = 1.6
    """Temperature T in the first epoch."""
    limit: float = 0.4
    """Operations below this share of the weight that each would have if all were alike are removed."""

    def schedule(self, progress: Progress) -> None:
        """Cool down from epoch to epoch."""
        self.state["temperature"] = torch.tensor(self.start_temperature * 0.95**progress.epoch)

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: str | None) -> Tensor:  # noqa: ARG002
        """The softmax at the temperature of the epoch."""
        return (alpha / self.state.get("temperature", torch.tensor(self.start_temperature))).softmax(dim=1)

    def end_epoch(self, epoch: EpochEnd) -> Continue:
        """Remove what has lost, but never the best operation of an edge."""
        if epoch.progress.epoch >= epoch.progress.frozen:
            for kind, alpha in self.logits(epoch.architecture).items():
                weights = self.relax(alpha, None, None)
                best = weights == weights.amax(dim=1, keepdim=True)
                self.keep(kind, self.mask(kind) & (best | (weights > self.limit / alpha.shape[1])))
        return Continue()
