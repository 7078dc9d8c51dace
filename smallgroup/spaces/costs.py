"""What each operation of each edge costs: for penalties on the size of the derived network."""

from typing import Literal

import torch
from torch import Tensor, nn

from smallgroup.spaces.edges import MixedEdge, MixedEdges
from smallgroup.spaces.space import Mixture, Space

Cost = Literal["parameters", "multiply_adds"]


def costs(space: Space, what: Cost = "multiply_adds") -> dict[str, Tensor]:
    """By kind, [edges, operations]: the cost of an operation summed over all cells of the kind, for one image.

    Multiply-adds are those of convolutions, counted on the meta device, where nothing is computed.
    """
    counted: dict[nn.Module, int] = {}

    def count(layer: nn.Module, _: object, output: Tensor) -> None:
        assert isinstance(layer, nn.Conv2d)
        counted[layer] = output[0].numel() * layer.weight[0].numel()

    def cost(operation: nn.Module) -> int:
        if what == "parameters":
            return sum(p.numel() for p in operation.parameters())
        return sum(counted.get(layer, 0) for layer in operation.modules())

    supernet = space.supernet(MixedEdge, {})
    for layer in supernet.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(count)
    everything = {name: Mixture(torch.ones(kind.shape)) for name, kind in space.kinds.items()}
    # Two images, because batch norm takes no single value per channel.
    supernet(torch.zeros(2, *space.images.shape, device="meta"), everything)
    result = {name: torch.zeros(kind.shape, dtype=torch.float64) for name, kind in space.kinds.items()}
    for nodes in supernet.modules():
        if isinstance(nodes, MixedEdges):
            for e, edge in enumerate(nodes.edges):
                assert isinstance(edge, MixedEdge)  # asked for above
                for i, name in enumerate(edge.names):
                    if name is not None:
                        result[nodes.kind.name][e, i] += cost(edge.operations[name])
    return result
