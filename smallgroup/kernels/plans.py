"""Cells that a path may compute in one call: what their terms are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

SKIP, AVERAGE = -2, -1
"""What a term is, if it is no convolution; see `cells.h`."""


class Arrow(NamedTuple):
    """One operation of an edge: a term of the sum of a node."""

    source: int
    """State that it reads: the inputs of the cell, and behind them its nodes."""
    node: int
    """State whose sum it is a term of."""
    layer: nn.Conv2d | None = None
    """ReLU, this convolution of 1x1 or 3x3 pixels, batch norm by the statistics of the batch."""
    average: bool = False
    """3x3 pooling; without a layer and this, the state itself."""


@dataclass(frozen=True)
class CellTerms:
    """All terms of a cell in the order of their weights."""

    arrows: tuple[Arrow, ...]
    inputs: int
    nodes: int
    layers: tuple[nn.Conv2d, ...]
    numbers: tuple[int, ...]
    """Source, node and kind of every term, for the operator."""

    @staticmethod
    def of(arrows: Sequence[Arrow], inputs: int, nodes: int) -> "CellTerms":
        """Number the layers of a cell, so that the operator can refer to them."""
        layers = [arrow.layer for arrow in arrows if arrow.layer is not None]
        numbers, seen = [], 0
        for arrow in arrows:
            what = AVERAGE if arrow.average else SKIP
            if arrow.layer is not None:
                what, seen = seen, seen + 1
            numbers += [arrow.source, arrow.node, what]
        return CellTerms(tuple(arrows), inputs, nodes, tuple(layers), tuple(numbers))
