"""What the tests of single methods share."""

from typing import TypeVar

import torch
from scipy import stats
from torch import Tensor

from smallgroup.methods import Method, Progress
from smallgroup.testing import SmoothSpace

ALPHA = torch.tensor([[0.2, -0.4, 1.0, 0.0, 0.3], [2.0, 0.1, -1.0, 0.5, 0.2], [0.0, 0.0, 0.0, 0.0, 0.0]]).double()
DRAWS = 100_000
M = TypeVar("M", bound=Method)


def started(method: M) -> M:
    """A method at the beginning of a search of the smooth space."""
    method.start(SmoothSpace())
    return method


def at(epoch: int, epochs: int, *, frozen: int = 0, stage: int = 0, step: int = 0) -> Progress:
    """An epoch of a search."""
    return Progress(epoch=epoch, epochs=epochs, step=step, steps=epochs, stage=stage, frozen=frozen)


def wide(method: M, row: Tensor, kept: Tensor | None = None) -> tuple[M, dict[str, Tensor]]:
    """A method whose one kind of cell has 100,000 edges of the same logits: as many draws at once."""
    started(method)
    mask = torch.ones(len(row), dtype=torch.bool) if kept is None else kept
    method.state["mask_cell"] = mask.expand(DRAWS, -1).clone()
    return method, {"alpha_cell": row.expand(DRAWS, -1).clone()}


def fits(counts: Tensor, probabilities: Tensor) -> bool:
    """Whether a chi-square test finds nothing at the level of 0.1 %."""
    shares = probabilities.double()
    expected = shares / shares.sum() * counts.sum()
    return float(stats.chisquare(counts.double().numpy(), expected.numpy()).pvalue) > 1e-3
