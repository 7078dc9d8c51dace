"""DARTS-: Chu et al., Robustly Stepping out of Performance Collapse, ICLR 2021 (arXiv:2009.01027)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from smallgroup.methods.decisions import Progress
from smallgroup.methods.method import Architecture, Method, Noise
from smallgroup.runtime import Phase
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.layers import SEARCH, FactorizedReduce
from smallgroup.spaces.space import Choice, EdgeParts, Mixture


@dataclass
class DartsMinus(Method):
    """An auxiliary skip connection beside the softmax of every edge, so that the one inside wins by merit alone.

    sum_i softmax(alpha)_i o_i(x) + beta x; beta falls from 1 to nearly 0, and the derived cell has nothing of it.
    """

    name: ClassVar[str] = "darts-minus"

    decay: Literal["linear", "cosine"] = "linear"
    """How beta, the weight of the auxiliary skip connection, falls from 1 to nearly 0."""

    def schedule(self, progress: Progress) -> None:
        """Set beta in epoch e of E to (E - e) / E, or (1 + cos(pi e / E)) / 2."""
        share = progress.epoch / progress.epochs
        beta = 1 - share if self.decay == "linear" else (1 + math.cos(math.pi * share)) / 2
        self.state["beta"] = torch.tensor(beta, dtype=torch.float64)

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:
        """Return the softmax of the operations, and beta for the edges."""
        mixtures = super().mix(architecture, noise, phase)
        for mixture in mixtures.values():
            beta = float(self.state.get("beta", 1.0))
            mixture.settings = mixture.weights.new_full((len(mixture.weights),), beta)
        return mixtures

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        """Build the operations of an edge with the auxiliary connection beside them."""
        return AuxiliaryEdge(parts)


class AuxiliaryEdge(MixedEdge):
    """A mixed edge with a skip connection of its own; where the size is halved, with weights of its own.

    An edge that changes the number of channels has none: nothing can be skipped there.
    """

    def __init__(self, parts: EdgeParts) -> None:
        super().__init__(parts)
        self.auxiliary: nn.Module | None = nn.Identity()
        if parts.outputs not in (None, parts.channels):
            self.auxiliary = None
        elif parts.stride == 2:
            self.auxiliary = FactorizedReduce(parts.channels, parts.channels, SEARCH)

    def finish(self, mixed: Tensor, inputs: Tensor, choice: Choice) -> Tensor:
        """Return the mixed output and beta times the input; a derived cell in the supernet has no beta."""
        if choice.settings is None or self.auxiliary is None:
            return mixed
        beside: Tensor = self.auxiliary(inputs)
        return mixed + choice.settings * beside
