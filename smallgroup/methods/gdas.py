"""GDAS: Dong and Yang, Searching for a Robust Neural Architecture in Four GPU Hours, CVPR 2019 (arXiv:1910.04465)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from smallgroup.methods.sampling import CooledDraws, largest, one_hot
from smallgroup.runtime import Phase
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.space import Evaluated


@dataclass
class Gdas(CooledDraws):
    """One operation per edge, drawn by the Gumbel-max trick; its gradient is that of the tempered softmax.

    p = softmax((log softmax(alpha) + G) / tau), w = onehot(argmax p) - stop(p) + p, tau falling linearly.
    """

    name: ClassVar[str] = "gdas"
    rule: ClassVar[Rule] = Rule("pairs")
    evaluate: ClassVar[Evaluated] = "active"

    first_temperature: float = 10.0
    """Temperature tau in the first epoch."""
    last_temperature: float = 0.1
    """Temperature tau in the last epoch."""

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Relax to one operation per edge, with the gradient of the softmax."""
        assert noise is not None  # `draw` makes it
        p = ((alpha.log_softmax(dim=1) + noise) / self.temperature).softmax(dim=1)
        return one_hot(largest(p, noise), p) - p.detach() + p
