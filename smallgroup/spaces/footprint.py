"""What a derived network takes on a board, in int8: bytes of its weights, and of its activations while it runs."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.count import shapes_alone
from smallgroup.spaces.schedule import MemoryPlan, Node, best_schedule

PER_CHANNEL = 8
"""Bytes of an output channel beside its weights: a bias of 32 bits, and the scale of its weights as float32."""
IN_PLACE = (nn.BatchNorm2d, nn.ReLU)
"""Layers without a result of their own: part of the convolution before or after them."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of a network in int8, for one image."""

    flash: int
    """A byte for each weight of convolutions and linear layers, and for each of their output channels `PER_CHANNEL`; as
    much for each channel of a batch norm that follows no convolution."""
    schedule: MemoryPlan
    """Schedule of the activations; its peak leaves out the scratch memory of a runtime."""

    @property
    def flash_kb(self) -> float:
        """Return the size of the weights in int8, in units of 1,024 bytes."""
        return self.flash / 1024

    @property
    def ram_kb(self) -> float:
        """The peak of live activations, in units of 1,024 bytes."""
        return self.schedule.peak / 1024


def footprint(network: nn.Module, images: ImageSpec) -> Footprint:
    """Return what a network takes in int8, without computing anything: a copy without memory is asked for its shapes.

    A byte for each number of an activation. Batch norms, ReLUs, slices and changes of shape have no memory of their
    own; every other operation, sums and concatenations too, has its result beside its inputs.
    """
    graph = _Graph()
    shadow = shapes_alone(network, {kind: graph.norm if kind is nn.BatchNorm2d else _unchanged for kind in IN_PLACE})
    image = torch.empty(1, *images.shape, device="meta")
    graph.add(image, ())
    with torch.no_grad(), graph:
        shadow(image)
    return Footprint(graph.flash, best_schedule(graph.nodes))


def _unchanged(_: nn.Module, inputs: Tensor) -> Tensor:
    return inputs


class _Graph(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations of a pass, noted as they are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[Node] = []
        self.flash = 0
        self._convolutions: set[int] = set()
        self._owner: dict[int, int] = {}
        """The operation whose result a storage is."""
        self._kept: list[Tensor] = []
        """All tensors: one that is gone would give its address to another."""

    def add(self, result: Tensor, inputs: tuple[int, ...]) -> None:
        """Note an operation by its result and the operations it reads."""
        self._owner[_storage(result)] = len(self.nodes)
        self._kept.append(result)
        self.nodes.append(Node(result.numel(), inputs))

    def norm(self, layer: nn.Module, inputs: Tensor) -> Tensor:
        """Count a batch norm as part of the convolution before it, if there is one."""
        if self._owner.get(_storage(inputs)) not in self._convolutions:
            self.flash += PER_CHANNEL * int(layer.num_features)  # type: ignore[arg-type]
        return inputs

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        given = [one for one in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        inputs = tuple(self._owner[_storage(one)] for one in given if _storage(one) in self._owner)
        made = result[0] if isinstance(result, tuple) else result  # a maximum pooling also gives places
        if not isinstance(made, Tensor) or not inputs or _storage(made) in self._owner:
            self._kept += [made] if isinstance(made, Tensor) else []  # constants, weights, views
            return result
        if func.overloadpacket in _WITH_WEIGHTS:
            weight = given[_WITH_WEIGHTS[func.overloadpacket]]
            self.flash += weight.numel() + PER_CHANNEL * made.shape[1]
            self._convolutions.add(len(self.nodes))
        self.add(made, inputs)
        return result


_WITH_WEIGHTS = {torch.ops.aten.convolution: 1, torch.ops.aten.addmm: 2}
"""Operations with weights, and which of their tensors are these."""


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
