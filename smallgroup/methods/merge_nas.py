"""MergeNAS: Wang et al., Merge Operations into One for Differentiable Architecture Search, IJCAI 2020."""

import re
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.methods.method import Method
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.layers import SEARCH, batch_norm
from smallgroup.spaces.space import Choice, EdgeParts


@dataclass
class MergeNas(Method):
    """DARTS in which the convolutions of an edge share one kernel, in which they are mixed; the rest is as in DARTS.

    Each of them is a mask of that kernel, K * sum_i softmax(alpha)_i mask_i, with one depthwise layer, one pointwise
    layer and one batch norm; a dense 1x1 convolution is the middle of a dense 3x3 one.
    """

    name: ClassVar[str] = "merge-nas"

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        """Build an edge with one kernel if it has more than one convolution to merge."""
        found = [_kernel_part(name) for name in parts.operations]
        alike = [one.depthwise for one in found if one is not None]
        return MergedEdge(parts) if len(alike) > 1 and len(set(alike)) == 1 else MixedEdge(parts)


class KernelPart(NamedTuple):
    """The entries of a shared kernel that an operation uses."""

    kernel: int
    dilation: int
    depthwise: bool

    @property
    def span(self) -> int:
        """Height and width of the entries together."""
        return (self.kernel - 1) * self.dilation + 1

    def mask(self, size: int, like: Tensor) -> Tensor:
        """Return a mask [size, size]: one where the kernel is used, around its middle."""
        first = (size - self.span) // 2
        used = torch.zeros(size, size, dtype=like.dtype, device=like.device)
        used[first : first + self.span : self.dilation, first : first + self.span : self.dilation] = 1
        return used


class MergedEdge(MixedEdge):
    """A mixed edge whose convolutions are one."""

    def __init__(self, parts: EdgeParts) -> None:
        found = {i: one for i, name in enumerate(parts.operations) if (one := _kernel_part(name)) is not None}
        others = tuple(None if i in found else name for i, name in enumerate(parts.operations))
        super().__init__(replace(parts, operations=others))
        self.footprints, self.stride, channels = found, parts.stride, parts.channels
        self.size = max(one.span for one in found.values())
        self.groups = channels if all(one.depthwise for one in found.values()) else 1
        self.kernel = nn.Conv2d(channels, channels, self.size, groups=self.groups, bias=False)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False) if self.groups > 1 else nn.Identity()
        self.norm = batch_norm(channels, SEARCH)

    def _mixed(self, inputs: Tensor, choice: Choice) -> Tensor:
        merged = [i for i in self.footprints if choice.kept[i] and (choice.active[i] or choice.evaluate != "active")]
        if not merged:
            return super()._mixed(inputs, choice)
        uses = [choice.weights[i] * self.footprints[i].mask(self.size, inputs) for i in merged]
        kernel = self.kernel.weight * torch.stack(uses).sum(dim=0)
        depth = functional.conv2d(
            functional.relu(inputs), kernel, stride=self.stride, padding=self.size // 2, groups=self.groups
        )
        convolved: Tensor = self.norm(self.pointwise(depth))
        others = [name for i, name in enumerate(self.names) if name not in (None, "none") and choice.kept[i]]
        return convolved + super()._mixed(inputs, choice) if others else convolved


def _kernel_part(operation: str | None) -> KernelPart | None:
    """Return the kernel part of an operation that can be merged; None for others."""
    found = re.fullmatch(r"(sep|dil|nor)_conv_(\d)x\2", operation or "")
    return None if found is None else KernelPart(int(found[2]), 2 if found[1] == "dil" else 1, found[1] != "nor")
