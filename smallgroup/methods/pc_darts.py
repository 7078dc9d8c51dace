"""PC-DARTS: Xu et al., Partial Channel Connections for Memory-Efficient Architecture Search, ICLR 2020 (1907.05737)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.methods.method import Architecture, ArchitectureOptimizer, Method, Noise
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_counts
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.space import EdgeParts, Mixture, Space


@dataclass
class PcDarts(Method):
    """Partial channels: the first 1/`part` go through the operations, the others pass them by; edges are weighed too.

    An edge is shuffle(sum_i softmax(alpha)_i o_i(first), rest), a node the sum of its edges by softmax(beta) over
    them. What stays is decided by the product of the two.
    """

    name: ClassVar[str] = "pc-darts"
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer(lr=6e-4)
    warmup: ClassVar[float] = 0.3

    part: int = 4
    """1/part of the channels go through the operations."""

    def __post_init__(self) -> None:
        check_counts(part=self.part)

    def start(self, space: Space) -> None:
        """Remember which edges lead to the same node."""
        super().start(space)
        for name, kind in space.kinds.items():
            self.state[f"nodes_{name}"] = _nodes(kind)

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:
        """Return 1e-3 N(0, 1) for operations and for edges."""
        alphas = super().initial(space, generator)
        betas = {
            f"beta_{name}": 1e-3 * torch.randn(len(kind.edges), generator=generator)
            for name, kind in space.kinds.items()
        }
        return alphas | betas

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:
        """Return the softmax of the operations and that of the edges."""
        mixtures = super().mix(architecture, noise, phase)
        for kind, mixture in mixtures.items():
            mixture.edges = self.edge_weights(kind, architecture)
        return mixtures

    def edge_weights(self, kind: str, architecture: Architecture) -> Tensor:
        """Return [edges]: weights that sum to one over the edges leading to a node."""
        beta, nodes = architecture[f"beta_{kind}"], self.state[f"nodes_{kind}"].tolist()
        return torch.cat([rows.softmax(dim=0) for rows in torch.split(beta, nodes)])

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return the products of alpha and beta, both as shares."""
        scores = super().scores(architecture)
        return {kind: table * self.edge_weights(kind, architecture)[:, None] for kind, table in scores.items()}

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        """Build an edge with the operations on a part of the channels."""
        return PartialEdge(parts, self.part)


class PartialEdge(MixedEdge):
    """The first 1/part of the channels mixed, the others passed by, and all of them shuffled."""

    def __init__(self, parts: EdgeParts, part: int) -> None:
        parts.check_keeps_channels("pc-darts")
        if parts.channels % part:
            raise ValueError(
                f"pc-darts sends 1/{part} of the channels through the operations, so that {part} must divide their "
                f"number, but it is {parts.channels}; see methods.pc-darts.part"
            )
        first = parts.channels // part
        super().__init__(replace(parts, channels=first))
        self.groups, self.first = part, first

    def beside(self, inputs: Tensor) -> Tensor | None:
        """Return the other channels, through 2x2 max pooling where the edge halves the size."""
        if self.groups == 1 or self.first is None:  # there is nothing to pass by, and nothing to shuffle
            return None
        rest = inputs[:, self.first :]
        return functional.max_pool2d(rest, 2, 2, ceil_mode=True) if self.stride == 2 else rest

    def joined(self, mixed: Tensor, beside: Tensor) -> Tensor:
        """Return the mixed and the other channels together, shuffled."""
        return shuffled(torch.cat([mixed, beside], dim=1), self.groups)


def shuffled(x: Tensor, groups: int) -> Tensor:
    """Move channel c = g n + i of `groups` groups of n to place i groups + g."""
    batch, channels, height, width = x.shape
    if x.device.type != "cpu":  # the layout stays: every convolution that follows would have to change it back
        pixels = x.permute(0, 2, 3, 1).reshape(batch, height, width, groups, channels // groups)
        return pixels.transpose(3, 4).reshape(batch, height, width, channels).permute(0, 3, 1, 2)
    grouped = x.reshape(batch, groups, channels // groups, height, width)
    return grouped.transpose(1, 2).reshape(batch, channels, height, width)


def _nodes(kind: Kind) -> Tensor:
    """Return how many edges lead to each node; they lie side by side."""
    nodes = [node for _, node in kind.edges]
    counts = [nodes.count(node) for node in dict.fromkeys(nodes)]
    if nodes != sorted(nodes):
        raise ValueError(f"edges must stand in the order of the nodes they lead to, but those of {kind.name} do not")
    return torch.tensor(counts)
