"""What each operation of each edge costs: for penalties on the size of the derived network."""

from typing import Literal

import torch
from torch import Tensor, nn

from smallgroup.spaces.edges import MixedEdge, MixedEdges
from smallgroup.spaces.space import Mixture, Space

Cost = Literal["parameters", "multiply_adds", "flash_kb", "ram_kb"]
BESIDE_WEIGHTS = 8
"""Bytes of an output channel beside its weights, as in `footprint`."""


def costs(space: Space, what: Cost = "multiply_adds") -> dict[str, Tensor]:
    """Return by kind [edges, operations]: the cost of an operation summed over all cells of the kind, for one image.

    Multiply-adds are those of convolutions, counted on the meta device, where nothing is computed. Flash is that of
    weights in int8. RAM is the largest result in int8 of a layer inside the operation: what it adds to live activations
    while it runs, which is no peak of a network.
    """
    counted: dict[nn.Module, int] = {}
    results: dict[nn.Module, int] = {}

    def count(layer: nn.Module, _: object, output: Tensor) -> None:
        results[layer] = output[0].numel()
        if isinstance(layer, nn.Conv2d):
            counted[layer] = output[0].numel() * layer.weight[0].numel()

    def cost(operation: nn.Module) -> float:
        layers = list(operation.modules())
        if what == "parameters":
            return sum(p.numel() for p in operation.parameters())
        if what == "flash_kb":
            convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
            return sum(layer.weight.numel() + BESIDE_WEIGHTS * layer.out_channels for layer in convolutions) / 1024
        if what == "ram_kb":
            return max((results[layer] for layer in layers if layer in results), default=0) / 1024
        return sum(counted.get(layer, 0) for layer in layers)

    supernet = space.supernet(MixedEdge, {})
    for layer in supernet.modules():
        if isinstance(layer, nn.Conv2d | nn.AvgPool2d | nn.MaxPool2d):
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
