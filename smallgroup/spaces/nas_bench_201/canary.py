"""What only NAS-Bench-201 computes, for `smallgroup.spaces.canary`."""

from collections.abc import Callable

import torch
from torch import Tensor

from smallgroup.spaces.canary import CHANNELS, of_layers
from smallgroup.spaces.layers import FULL
from smallgroup.spaces.nas_bench_201.skeleton import ResidualReduction

PARTS: dict[str, Callable[[torch.Generator], list[Tensor]]] = {
    "3x3 convolution, stride 2": of_layers(lambda: ResidualReduction(CHANNELS, 2 * CHANNELS, FULL)),
}
