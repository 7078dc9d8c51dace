"""What the kernels work on: results whose batch norm is still to come, and the convolutions between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor, nn

EPSILON = 1e-5
"""Of every batch norm here."""


class Term(NamedTuple):
    """Images, [n, c, h, w], that stand for their normalised selves where they have statistics.

    A batch norm is put off until its result is used: what uses it reads the raw values anyway, and normalises them on
    the way. Gradients are those of the raw values, through the statistics.
    """

    value: Tensor
    statistics: Tensor | None = None
    """[3, c]: mean, 1 / sqrt(variance + epsilon), variance; constants, because whoever normalises differentiates."""
    affine: Tensor | None = None
    """[2, c]: scale and shift of the normalised values."""


@dataclass(frozen=True)
class Convolution:
    """ReLU, depthwise filter if there is one, convolution, batch norm by the statistics of the batch."""

    matrix: Tensor
    """[out, in, k, k]; k is 1 behind a depthwise filter."""
    norm: nn.BatchNorm2d
    filter: Tensor | None = None
    """[in, 1, k, k]"""
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


AnyTerm = Term | Deferred


class Backend(Protocol):
    """The functions a path consists of, all of them differentiable once."""

    def convolutions(self, inputs: Sequence[Term], layers: Sequence[Convolution], stride: int) -> list[AnyTerm]:
        """The results of several layers, each on one of the inputs, which are all of one size."""
        ...

    def pool(self, x: Tensor, *, average: bool, stride: int, normed: bool) -> Term:
        """3x3 pooling with a border of one pixel that does not count."""
        ...

    def mix(self, terms: Sequence[AnyTerm], weights: Tensor) -> Tensor:
        """sum_i weights[i] terms[i]."""
        ...

    def normalised(self, term: AnyTerm) -> Tensor:
        """The images a term stands for."""
        ...
