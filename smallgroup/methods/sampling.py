"""Random numbers that several methods share."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.runtime import Phase

TRAINING: tuple[Phase, ...] = ("v", "w", "w_unlabeled")
"""Passes whose loss moves weights."""


def gumbel(logits: Mapping[str, Tensor], phase: Phase | None, generator: torch.Generator) -> dict[str, Tensor]:
    """Gumbel noise G = -log(E), E exponential; never infinite, because E is kept off zero. None in evaluation."""
    if phase is None:
        return {kind: torch.zeros_like(alpha) for kind, alpha in logits.items()}
    return {
        kind: -torch.empty(alpha.shape).exponential_(generator=generator).clamp_min(1e-30).log().to(alpha)
        for kind, alpha in logits.items()
    }


def drawn(logits: Tensor, noise: Tensor) -> Tensor:
    """Return the column that Gumbel noise draws from each row: i with probability softmax(logits)_i."""
    return (logits + noise).argmax(dim=1)


def one_hot(columns: Tensor, like: Tensor) -> Tensor:
    """Return a table shaped like another, with a one in the given column of each row."""
    return functional.one_hot(columns, like.shape[1]).to(like)
