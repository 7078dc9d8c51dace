"""OLES: Jiang et al., Operation-Level Early Stopping for Robustifying Differentiable NAS, NeurIPS 2023."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from smallgroup.methods.method import Method, OperationGradients
from smallgroup.runtime.checks import check_counts
from smallgroup.runtime.constants import numbers_on


@dataclass
class Oles(Method):
    """DARTS that stops training an operation once training and validation pull its weights in different directions.

    The cosine between both gradients of an operation is the mean over its filters. Where its mean over `every` steps is
    below `least`, the weights of that operation stay as they are for the rest of the search.
    """

    name: ClassVar[str] = "oles"

    least: float = 0.4
    """Mean cosine of both gradients below which the weights of an operation are frozen."""
    every: int = 20
    """Steps over which the cosine is averaged."""

    def __post_init__(self) -> None:
        check_counts(every=self.every)
        if not -1 <= self.least <= 1:
            raise ValueError(f"-1 <= least <= 1 must hold, but got least={self.least}")

    def compare_gradients(self, training: OperationGradients, validation: OperationGradients) -> None:
        """Add up cosines; after so many steps freeze the operations whose mean is too small, and begin anew."""
        cosines = [_cosine(*pair) for pair in zip(training, validation, strict=True)]
        known = [cosine for cosine in cosines if cosine is not None]
        if known:  # the sums stay where the gradients are, so that nobody waits for them in every step
            values = torch.stack([known[0].new_zeros(()) if cosine is None else cosine for cosine in cosines])
            counted = numbers_on([float(cosine is not None) for cosine in cosines], torch.float64, values.device)
            found = torch.stack([values, counted])
            before = self.state.get("cosines")
            self.state["cosines"] = found if before is None else before.to(found.device) + found
        steps = int(self.state.get("compared", torch.tensor(0))) + 1
        if steps == self.every:
            self._stop(len(training))
            steps = 0
        self.state["compared"] = torch.tensor(steps)

    def _stop(self, operations: int) -> None:
        """Freeze the operations whose mean cosine is too small, and begin anew."""
        none = torch.zeros(2, operations, dtype=torch.float64)
        cosines, counted = self.state.get("cosines", none).cpu()
        stopped, known = cosines < self.least * counted, self.state.get("frozen")
        self.state |= {"frozen": stopped if known is None else known | stopped, "cosines": none}

    @property
    def frozen(self) -> Tensor | None:
        """The operations that have been stopped."""
        return self.state.get("frozen")


def _cosine(training: Sequence[Tensor | None], validation: Sequence[Tensor | None]) -> Tensor | None:
    """Return the mean cosine over filters; None without any. A bias before a batch norm has rounding as gradient."""
    found = [
        cosine_similarity(a.flatten().double(), b.flatten().double(), dim=0)
        for a, b in zip(training, validation, strict=True)
        if a is not None and b is not None and a.dim() > 1
    ]
    return reduce(add, found) / len(found) if found else None
