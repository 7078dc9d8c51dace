"""What a derived network is: the module that is trained from scratch once a search is over."""

from typing import Any

from torch import Tensor, nn

from smallgroup.spaces.drop_path import Key
from smallgroup.spaces.outputs import Outputs


class DerivedNetwork(nn.Module):
    """A network around a genotype. By default it has no auxiliary head and no drop path; a space may add both."""

    genotype: Any
    classifier: nn.Linear
    """The last layer: from a vector of each image to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.auxiliary: nn.Module | None = None
        """The head that helps to train, and is not shipped: its weights are those whose names begin with this one."""

    @property
    def drop_path(self) -> float:
        """Return the probability that an operation is left out for an image in training; a schedule sets it."""
        return 0.0

    @drop_path.setter
    def drop_path(self, probability: float) -> None:
        if probability != 0:
            space = self.genotype.space
            raise ValueError(f"drop_path must be 0 in networks of {space}, but got drop_path={probability}")

    def forward(self, images: Tensor, key: Key | None = None) -> Tensor | Outputs:
        """Map [n, channels, height, width] to logits [n, classes]; in training with a head, return its logits too.

        The key, such as (seed, epoch, step), decides all that is random in a pass.
        """
        raise NotImplementedError
