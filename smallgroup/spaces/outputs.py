"""What a pass through a network gives."""

from typing import NamedTuple

from torch import Tensor


class Outputs(NamedTuple):
    """The logits, and those of the auxiliary head where one is at work: in training, if the network has one."""

    logits: Tensor
    auxiliary: Tensor | None = None

    @classmethod
    def of(cls, result: "Tensor | Outputs") -> "Outputs":
        """Wrap what a network returned, so that a training loop need not know whether there is a head."""
        return cls(result) if isinstance(result, Tensor) else result
