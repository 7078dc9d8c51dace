"""What the kernels work on: results whose batch norm is still to come, and the convolutions between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from smallgroup.kernels.plans import CellTerms

EPSILON = 1e-5
"""Added to the variance by every batch norm of this package."""


class ChannelPart(NamedTuple):
    """A part of the channels of images that were computed together: a later call may take them together again."""

    whole: Tensor
    number: int
    parts: int


class Term(NamedTuple):
    """Images, [n, c, h, w], that stand for their normalized selves where they have statistics.

    A batch norm is put off until its result is used: what uses it reads the raw values anyway, and normalizes them on
    the way.
    """

    value: Tensor
    statistics: Tensor | None = None
    """[3, c]: mean, 1 / sqrt(variance + epsilon), variance.

    Whoever normalizes gives the gradient of the values through the statistics, or the two apart: that of the values as
    if the statistics were constants, and that of the statistics.
    """
    affine: Tensor | None = None
    """[2, c]: scale and shift of the normalized values."""
    part: "ChannelPart | None" = None
    """Where the values lie beside others, if a path has said so."""


@dataclass(frozen=True)
class Convolution:
    """ReLU, depthwise filter if there is one, convolution, batch norm by the statistics of the batch."""

    matrix: Tensor
    """[out, in, k, k]; k is 1 behind a depthwise filter."""
    norm: nn.BatchNorm2d
    filter: Tensor | None = None
    """Weights of the depthwise convolution, [in, 1, k, k]."""
    bias: Tensor | None = None
    """Has no effect, because a batch norm follows; it is here to be given its gradient, zero."""
    dilation: int = 1
    source: int = 0
    """Which of the inputs it is applied to."""
    last: bool = False
    """Whether the result goes into a sum, and nowhere else: then it may be left to the sum to compute it."""


class Deferred(NamedTuple):
    """A convolution that is left to the sum it is a term of."""

    input: Term
    layer: Convolution
    stride: int

    @property
    def constant(self) -> bool:
        """Whether no gradient is asked of it."""
        own = (self.input.value, self.layer.matrix, self.layer.filter)
        return not any(tensor is not None and tensor.requires_grad for tensor in own)

    def detached(self) -> "Deferred":
        """Return the same term cut off from the graph."""
        layer = replace(
            self.layer,
            matrix=self.layer.matrix.detach(),
            filter=None if self.layer.filter is None else self.layer.filter.detach(),
            bias=None if self.layer.bias is None else self.layer.bias.detach(),
        )
        value, statistics, affine = (None if tensor is None else tensor.detach() for tensor in self.input[:3])
        assert value is not None
        return Deferred(Term(value, statistics, affine), layer, self.stride)


AnyTerm = Term | Deferred


class Board:
    """Memory for images of so many parts side by side: a path may write sums where their concatenation wants them."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.memory: Tensor | None = None

    def part(self, number: int, like: Tensor) -> Tensor:
        """Return memory for a part, of the size of these images; autograd sees the joined whole, no views."""
        n, c, h, w = like.shape
        if self.memory is None:
            shape = (n, self.parts * c, h, w)
            self.memory = torch.empty(shape, dtype=like.dtype, memory_format=torch.channels_last)
        place = self.memory[:, number * c : (number + 1) * c]
        storage, start = self.memory.untyped_storage(), place.storage_offset()
        return like.new_empty(0).set_(storage, start, place.shape, place.stride())

    def holds(self, parts: Sequence[Tensor]) -> bool:
        """Return whether the board holds these parts, in their order."""
        if self.memory is None or len(parts) != self.parts:
            return False
        places = self.memory.chunk(self.parts, dim=1)
        return all(
            part.data_ptr() == place.data_ptr() and part.shape == place.shape and part.stride() == place.stride()
            for part, place in zip(parts, places, strict=True)
        )


class Place(NamedTuple):
    """The memory into which a sum may be written."""

    board: Board
    number: int
    """Number of the part of the board that the sum is written to."""


def check_values(y: Tensor) -> None:
    """Refuse images with a single value per channel, as torch's batch norm does."""
    if y.numel() <= y.shape[1]:
        raise ValueError(f"a batch norm needs more than one value per channel, but images are {tuple(y.shape)}")


Backward = Callable[..., Any]


def differentiable_once(backward: Backward) -> Backward:
    """Refuse second derivatives, which would be wrong without a word."""

    @wraps(backward)
    def checked(*arguments: Any) -> Any:  # noqa: ANN401
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the fast kernels are differentiable once, but a second derivative was asked for (create_graph=True); "
                'compute it inside `with smallgroup.kernels.using("plain"):`'
            )
        return backward(*arguments)

    return checked


class Blocks(Protocol):
    """Blocks that a path may compute in one call; its batch norms have scale and shift."""

    def stem(self, x: Tensor, layer: nn.Conv2d, norm: nn.BatchNorm2d) -> Tensor:
        """Return a 3x3 convolution of one pixel's border without bias, normalized."""
        ...

    def reduction(self, x: Tensor, body: Sequence[Convolution], shortcut: nn.Conv2d) -> Tensor | None:
        """Return two 3x3 convolutions, the first of stride two, plus one of 1x1 on means of 2x2 pixels; or None."""
        ...

    def head(self, x: Tensor, norm: nn.BatchNorm2d) -> Tensor:
        """Return the mean of the pixels of normalized and rectified images, [n, c]."""
        ...


class Backend(Protocol):
    """The functions a path consists of, all of them differentiable once."""

    @property
    def whole_nodes(self) -> bool:
        """Whether a node is one sum also where its edges pass part of their input by: fewer calls, other rounding."""
        ...

    @property
    def blocks(self) -> Blocks | None:
        """Blocks around cells that the path computes in one call; None: layer by layer."""
        ...

    def convolutions(self, inputs: Sequence[Term], layers: Sequence[Convolution], stride: int) -> list[AnyTerm]:
        """Return the results of several layers, each on one of the inputs, which are all of one size."""
        ...

    def pool(self, x: Tensor, *, average: bool, stride: int, normed: bool) -> Term:
        """Apply 3x3 pooling with a border of one pixel that does not count."""
        ...

    def mix(self, terms: Sequence[AnyTerm], weights: Tensor, place: Place | None = None) -> Tensor:
        """Return sum_i weights[i] terms[i], written to the place if given; weights are [terms] or [images, terms]."""
        ...

    def cell(self, plan: CellTerms, inputs: Sequence[Tensor], weights: Tensor) -> list[Tensor] | None:
        """Return all nodes of a cell, with a weight for every term; None if the cell is to be computed node by node."""
        ...

    def joined(self, parts: Sequence[Tensor], board: Board) -> Tensor:
        """Return the parts side by side; those that were given a place may lie there already."""
        ...

    def normalized(self, term: AnyTerm) -> Tensor:
        """Return the images that a term stands for."""
        ...
