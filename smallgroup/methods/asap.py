"""ASAP: Noy et al., Architecture Search, Anneal and Prune, AISTATS 2020 (arXiv:1904.04123)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Progress, Stop
from smallgroup.methods.method import Architecture, Method
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_counts, check_number
from smallgroup.spaces.space import Space


@dataclass
class Asap(Method):
    """A softmax that cools down, and pruning of what has become weak, until one operation per edge is left.

    w = softmax(alpha / T), T = 1.6 * 0.95^t. While T > 1 weights alone are trained; then every epoch removes what has
    less than threshold / operations.
    """

    name: ClassVar[str] = "asap"
    removed: ClassVar[frozenset[str]] = frozenset({"none"})
    warmup: ClassVar[float] = 0.2

    first_temperature: float = 1.6
    """Temperature of the softmax at the start."""
    decay: float = 0.95
    """Factor of the temperature per published epoch."""
    published_epochs: int = 50
    """Searches of another length cool down as far: t = epoch * published_epochs / epochs."""
    threshold: float = 0.4
    """Probabilities below threshold / n are pruned, n the operations that the space offers on the edge."""

    def __post_init__(self) -> None:
        check_number("first_temperature", self.first_temperature, positive=True)
        check_counts(published_epochs=self.published_epochs)
        for name, value in (("decay", self.decay), ("threshold", self.threshold)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must be between 0 and 1, but got {value}")

    def start(self, space: Space) -> None:
        """Remember how many operations each edge is offered, `none` among them."""
        super().start(space)
        for name, kind in space.kinds.items():
            self.state[f"offered_{name}"] = torch.tensor(kind.offers).sum(dim=1, keepdim=True)

    @property
    def temperature(self) -> float:
        """Return the temperature T of the current epoch."""
        return float(self.state.get("temperature", self.first_temperature))

    def schedule(self, progress: Progress) -> None:
        """Cool down from epoch to epoch."""
        t = progress.epoch * self.published_epochs / progress.epochs
        self.state["temperature"] = torch.tensor(self.first_temperature * self.decay**t, dtype=torch.float64)

    def trains_architecture(self, progress: Progress) -> bool:  # noqa: ARG002
        """Return whether the temperature has fallen to 1: the architecture moves from then on."""
        return self.temperature <= 1

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Relax by a softmax at the temperature of the epoch."""
        return (alpha / self.temperature).softmax(dim=1)

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        """Prune; one operation per edge is the end."""
        if self.temperature > 1 or epoch.progress.epoch < epoch.progress.frozen:
            return Continue()
        left = []
        for kind, scores in self.scores(epoch.architecture).items():
            strong = scores >= self.threshold / self.state[f"offered_{kind}"]
            strong[torch.arange(len(scores)), scores.argmax(dim=1)] = True
            self.keep(kind, self.mask(kind) & strong)
            left.append(self.mask(kind).sum(dim=1))
        return Stop("one operation per edge is left") if int(torch.cat(left).max()) == 1 else Continue()

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return the mixing weights as scores."""
        return self.masked({kind: self.relax(alpha, None, None) for kind, alpha in self.logits(architecture).items()})
