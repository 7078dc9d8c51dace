"""Count the parameters and the multiply-adds of a network."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from smallgroup.spaces.network import DerivedNetwork

ELEMENTWISE: dict[type[nn.Module], int] = {nn.BatchNorm2d: 2, nn.ReLU: 1, nn.ReLU6: 1}
"""Layers that keep the shape, and what some papers count for each number they give."""


def parameters(module: nn.Module, *, auxiliary: bool = False) -> int:
    """Return the number of parameters. An auxiliary head counts only if asked for: it is gone once training is over."""
    total = sum(parameter.numel() for parameter in module.parameters())
    heads = [] if auxiliary else [head for part in module.modules() if (head := _head(part)) is not None]
    return total - sum(parameters(head, auxiliary=True) for head in heads)


class Operations(NamedTuple):
    """The operations for one image, in two ways of counting."""

    multiply_adds: int
    """Multiply-adds of the convolutions and linear layers, as papers on this space count."""
    with_elementwise: int
    """The same plus 2 per number of a batch norm and 1 per ReLU, as P-DARTS and PC-DARTS count on ImageNet."""


def operations(module: nn.Module, size: int | tuple[int, int], image_channels: int = 3) -> Operations:
    """Return the multiply-adds for one image of `size`. An auxiliary head does not run.

    Nothing is computed: a copy without memory, on the meta device, is asked for its shapes.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 1:
        raise ValueError(f"size of an image must be at least 1, but got {height}x{width}")
    elements: list[int] = []

    def note(layer: nn.Module, inputs: Tensor) -> Tensor:
        # Its result has the shape of its input, and on the meta device a batch norm takes more time than all else.
        elements.append(ELEMENTWISE[type(layer)] * inputs.numel())
        return inputs

    shadow = shapes_alone(module, dict.fromkeys(ELEMENTWISE, note))
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        shadow(torch.empty(1, image_channels, height, width, device="meta"))
    # The counter takes a multiplication and an addition for two, and knows matrix products and convolutions only.
    counted = int(counter.get_total_flops()) // 2
    return Operations(counted, counted + sum(elements))


def multiply_adds(module: nn.Module, size: int | tuple[int, int], image_channels: int = 3) -> int:
    """Multiply-adds of the convolutions and linear layers for one image of `size`, as papers on this space count."""
    return operations(module, size, image_channels).multiply_adds


def _head(part: nn.Module) -> nn.Module | None:
    return part.auxiliary if isinstance(part, DerivedNetwork) else None


def shapes_alone(
    module: nn.Module, instead: Mapping[type[nn.Module], Callable[[nn.Module, Tensor], Tensor]]
) -> nn.Module:
    """Return a copy in eval mode that has shapes alone, on the meta device; some layers do something else `instead`.

    Copied part by part, since a deep copy takes as long as a pass.
    """
    shadow = copy.copy(module)
    shadow.training = False
    shadow._parameters = {name: _shape(tensor) for name, tensor in module._parameters.items()}
    shadow._buffers = {name: _shape(tensor) for name, tensor in module._buffers.items()}
    shadow._modules = {
        name: None if part is None else shapes_alone(part, instead) for name, part in module._modules.items()
    }
    if type(module) in instead:
        shadow.forward = partial(instead[type(module)], module)
    return shadow


def _shape(tensor: Tensor | None) -> Any:  # noqa: ANN401 -- stands where a parameter stood
    return None if tensor is None else tensor.detach().to("meta")
