"""A chain of blocks: what a search decides, and its notation."""

import re
from dataclasses import dataclass
from typing import ClassVar

from smallgroup.spaces.proxyless.names import BLOCKS, KIND, LAYERS, NONE, OPERATIONS
from smallgroup.spaces.reading import show

_THEIRS = re.compile(r"(\d)x\1_MBConv(\d)")
"""The release of ProxylessNAS writes 3x3_MBConv6 for mbconv6_3x3, and Zero for none."""


@dataclass(frozen=True)
class Chain:
    """The operation of each layer, `none` where the block is left out; checked when it is made."""

    operations: tuple[str, ...]
    space: ClassVar[str] = "proxyless"

    def __post_init__(self) -> None:
        if len(self.operations) != LAYERS:
            raise ValueError(f"a genotype of {self.space} must have {LAYERS} layers, but has {len(self.operations)}")
        for layer, operation in enumerate(self.operations):
            if operation not in OPERATIONS:
                known = ", ".join(OPERATIONS)
                raise ValueError(f"layer {layer + 1} must be one of {known}, but it is {show(operation)}")
            if operation not in KIND.offered(layer):
                raise ValueError(f"layer {layer + 1} begins a stage and cannot be left out, but it is {operation}")

    def __str__(self) -> str:
        """Return names separated by commas: what `parse` reads."""
        return ",".join(self.operations)

    @staticmethod
    def parse(text: str) -> "Chain":
        """Read names with commas between them, ours or those of the release of ProxylessNAS."""
        names = [name.strip() for name in text.strip().split(",")]
        return Chain(tuple(NONE if name == "Zero" else _THEIRS.sub(r"mbconv\2_\1x\1", name) for name in names))

    @property
    def skips(self) -> int:
        """Return the number of blocks that are left out."""
        return self.operations.count(NONE)

    @property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Return the operations of the blocks, stage by stage."""
        ends = [sum(BLOCKS[: stage + 1]) for stage in range(len(BLOCKS))]
        return tuple(self.operations[end - blocks : end] for end, blocks in zip(ends, BLOCKS, strict=True))


def looks_like_a_chain(text: str) -> bool:
    """Return whether a text begins with the name of a block."""
    first = text.strip().split(",")[0].strip()
    return first in OPERATIONS[1:] or _THEIRS.fullmatch(first) is not None
