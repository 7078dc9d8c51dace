"""beta-DARTS: Ye et al., Beta-Decay Regularization for DARTS, CVPR 2022 (arXiv:2203.01665)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.decisions import Progress
from smallgroup.methods.method import Architecture, Method
from smallgroup.runtime.checks import check_number


@dataclass
class BetaDarts(Method):
    """DARTS with a penalty on the size of alpha that grows from epoch to epoch, against collapse in long searches.

    c mean_edges logsumexp(alpha), summed over the kinds of cells, is added to the validation loss.
    """

    name: ClassVar[str] = "beta-darts"

    last_weight: float = 50.0
    """Weight of the penalty that it grows to linearly: in epoch e of E it is last_weight * e / E."""

    def __post_init__(self) -> None:
        check_number("last_weight", self.last_weight)

    def schedule(self, progress: Progress) -> None:
        """Penalize more from epoch to epoch."""
        self.state["weight"] = torch.tensor(self.last_weight * progress.epoch / progress.epochs, dtype=torch.float64)

    def penalty(self, architecture: Architecture, costs: Callable[[], Mapping[str, Tensor]]) -> Tensor:  # noqa: ARG002
        """Return the smooth maximum of the logits."""
        parts = [alpha.logsumexp(dim=1).mean() for alpha in self.logits(architecture).values()]
        return float(self.state.get("weight", 0.0)) * torch.stack(parts).sum()
