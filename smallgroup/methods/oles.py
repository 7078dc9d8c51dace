"""OLES: Jiang et al., Operation-Level Early Stopping for Robustifying Differentiable NAS, NeurIPS 2023."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from smallgroup.methods.method import Method, OperationGradients
from smallgroup.runtime.checks import check_counts


@dataclass
class Oles(Method):
    """DARTS that stops training an operation once training and validation pull its weights in different directions.

    The cosine between both gradients of an operation is the mean over its filters. Where its mean over `every` steps is
    below `least`, the weights of that operation stay as they are for the rest of the search.
    """

    name: ClassVar[str] = "oles"

    least: float = 0.4
    every: int = 20

    def __post_init__(self) -> None:
        check_counts(every=self.every)
        if not -1 <= self.least <= 1:
            raise ValueError(f"-1 <= least <= 1 must hold, but got least={self.least}")

    def compare_gradients(self, training: OperationGradients, validation: OperationGradients) -> None:
        """Add up cosines; after so many steps freeze the operations whose mean is too small, and begin anew."""
        none = torch.zeros(2, len(training), dtype=torch.float64)
        sums = self.state.get("cosines", none).clone()  # the tensors of a state that is kept stay as they are
        for i, pair in enumerate(zip(training, validation, strict=True)):
            if (cosine := _cosine(*pair)) is not None:
                sums[:, i] += torch.tensor([cosine, 1.0], dtype=torch.float64)
        steps = int(self.state.get("compared", torch.tensor(0))) + 1
        if steps == self.every:
            stopped = sums[0] < self.least * sums[1]
            known = self.state.get("frozen")
            self.state["frozen"] = stopped if known is None else known | stopped
            sums, steps = none, 0
        self.state |= {"cosines": sums, "compared": torch.tensor(steps)}

    @property
    def frozen(self) -> Tensor | None:
        """The operations that have been stopped."""
        return self.state.get("frozen")


def _cosine(training: Sequence[Tensor | None], validation: Sequence[Tensor | None]) -> float | None:
    """The mean over filters; None without any. A bias before a batch norm has no gradient but rounding."""
    found = [
        float(cosine_similarity(a.flatten().double(), b.flatten().double(), dim=0))
        for a, b in zip(training, validation, strict=True)
        if a is not None and b is not None and a.dim() > 1
    ]
    return sum(found) / len(found) if found else None
