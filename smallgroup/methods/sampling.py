"""Random numbers that several methods share."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from smallgroup.methods.decisions import Progress
from smallgroup.methods.method import Architecture, Method, Noise
from smallgroup.runtime import Phase
from smallgroup.runtime.fields import draw_uniform

TRAINING: tuple[Phase, ...] = ("v", "w", "w_unlabeled")
"""Names of the passes whose loss moves weights."""


def gumbel(logits: Mapping[str, Tensor], phase: Phase | None, generator: torch.Generator) -> dict[str, Tensor]:
    """Draw Gumbel noise G = -log(E), E exponential; never infinite, because E is kept off zero. None in evaluation."""
    if phase is None:
        return {kind: torch.zeros_like(alpha) for kind, alpha in logits.items()}
    return {
        kind: -torch.empty(alpha.shape).exponential_(generator=generator).clamp_min(1e-30).log().to(alpha)
        for kind, alpha in logits.items()
    }


_DECIDED: Any = WeakTensorKeyDictionary()
"""By noise on a device, the columns that it draws as main memory found them. They are forgotten with it."""


def decide(noise: Tensor, columns: Tensor) -> None:
    """Make noise on a device draw these columns: there rounding could decide a tie in another way."""
    _DECIDED[noise] = columns


class GumbelDraws(Method):
    """A method whose random numbers are Gumbel noise for every operation."""

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:
        """Draw Gumbel noise; zeros in evaluation, where the most probable operation is the strongest."""
        return gumbel(self.logits(architecture), phase, generator)


class CooledDraws(GumbelDraws):
    """Gumbel noise under a temperature tau that falls linearly from epoch to epoch."""

    first_temperature: float
    last_temperature: float

    def schedule(self, progress: Progress) -> None:
        """Cool down from epoch to epoch."""
        tau = progress.between(self.first_temperature, self.last_temperature)
        self.state["temperature"] = torch.tensor(tau, dtype=torch.float64)

    @property
    def temperature(self) -> float:
        """Return the temperature tau of the current epoch."""
        return float(self.state.get("temperature", self.first_temperature))


def around_one(architecture: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the start of DARTS, N(0, 0.001^2), as N(1, 0.01^2)."""
    return {name: 1 + 10 * alpha for name, alpha in architecture.items()}


def dropped(output: Tensor, rate: float, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return the output with parts of it, as many as the shape has entries, at 0 and the others scaled to its mean."""
    if rate == 0:
        return output
    kept = draw_uniform(shape, generator, output.device) >= rate
    return output * (kept.to(output) / (1 - rate))


def largest(values: Tensor, noise: Tensor) -> Tensor:
    """Return the column of the largest value of each row, unless it was decided before what the noise draws."""
    found: Tensor | None = _DECIDED.get(noise) if noise.device.type != "cpu" else None
    return values.argmax(dim=1) if found is None else found


def drawn(logits: Tensor, noise: Tensor) -> Tensor:
    """Return the column that Gumbel noise draws from each row: i with probability softmax(logits)_i."""
    return largest(logits + noise, noise)


def one_hot(columns: Tensor, like: Tensor) -> Tensor:
    """Return a table shaped like another, with a one in the given column of each row."""
    return functional.one_hot(columns, like.shape[1]).to(like)
