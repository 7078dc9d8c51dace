"""What only the DARTS space computes, for `smallgroup.spaces.canary`."""

from collections.abc import Callable

import torch
from torch import Tensor

from smallgroup.spaces.canary import CHANNELS, images_for, numbers, of_layers, there_and_back
from smallgroup.spaces.darts.names import OPERATIONS
from smallgroup.spaces.darts.operations import build
from smallgroup.spaces.darts.skeleton import Stem
from smallgroup.spaces.edges import MixedEdge, MixedNodes
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.layers import SEARCH
from smallgroup.spaces.space import Mixture
from smallgroup.spaces.weights import initialize


def _mixed(stride: int) -> Callable[[torch.Generator], list[Tensor]]:
    """Compute a node of a supernet: all operations on two inputs, their batch norms, and the weighted sum."""
    kind = Kind("canary", ((0, 2), (1, 2)), OPERATIONS)

    def compute(generator: torch.Generator) -> list[Tensor]:
        with torch.device("meta"):
            nodes = MixedNodes(
                kind,
                CHANNELS,
                (stride, stride),
                make=lambda name, channels, step: build(name, channels, step, SEARCH),
                build_edge=MixedEdge,
                mask=None,
            )
        initialize(nodes, generator).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        scores = numbers(kind.shape, generator).requires_grad_()

        def mixed(images: Tensor) -> Tensor:
            node: Tensor = nodes([images, images.flip(0)], Mixture(scores.softmax(dim=-1)), 0)[-1]
            return node

        return there_and_back(mixed, images_for(CHANNELS, generator), [*nodes.parameters(), scores], generator)

    return compute


PARTS: dict[str, Callable[[torch.Generator], list[Tensor]]] = {
    "stem": of_layers(lambda: Stem("cifar", 3, 3 * CHANNELS, SEARCH), 3),
    "depthwise convolution": of_layers(lambda: build("sep_conv_3x3", CHANNELS, 1, SEARCH)),
    "dilated convolution": of_layers(lambda: build("dil_conv_5x5", CHANNELS, 1, SEARCH)),
    "pooling": of_layers(lambda: build("avg_pool_3x3", CHANNELS, 1, SEARCH)),
    "mixed operations": _mixed(1),
    "mixed operations, stride 2": _mixed(2),
}
