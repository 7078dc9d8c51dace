"""Layers that supernets and derived networks share, in the style of either."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from smallgroup.kernels import EPSILON, AnyTerm, Convolution, Term, backend_for
from smallgroup.kernels.halves import halves, side_by_side
from smallgroup.runtime.constants import zeros_beside
from smallgroup.runtime.fields import draw_normal


@dataclass(frozen=True)
class Style:
    """The style in which an operation is built: for a search, or for the network that is trained afterwards."""

    affine: bool
    """Whether the batch norms of a cell have a scale and a shift."""
    running_statistics: bool
    """Whether batch norms keep averages for the time after training, or normalize each batch by itself always."""
    norm_after_pool: bool
    """Whether pooling is followed by a batch norm, so that no operation wins by its scale."""


SEARCH = Style(affine=False, running_statistics=False, norm_after_pool=True)
"""No buffers: a supernet is a pure function of its weights, and probes of it leave no trace."""
FULL = Style(affine=True, running_statistics=True, norm_after_pool=False)
POOLINGS: dict[str, Callable[[int], nn.Module]] = {"average": nn.AdaptiveAvgPool2d, "maximum": nn.AdaptiveMaxPool2d}
"""What makes a vector of the last map, by name; called with the size of what is left, 1."""


def batch_norm(channels: int, style: Style, *, affine: bool | None = None) -> nn.BatchNorm2d:
    """Return a batch norm in the given style; stems have scale and shift in every style."""
    affine = style.affine if affine is None else affine
    return nn.BatchNorm2d(channels, affine=affine, track_running_stats=style.running_statistics)


class Convolutions(nn.Sequential):
    """ReLU, depthwise filter or none, convolution, batch norm; once or several times over, the first with a stride.

    What stands here in torch's layers is the plain form. The other paths of `smallgroup.kernels` take the layers apart,
    if they are of that form: layers of another one are computed as they are.
    """

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.stages: list[tuple[int | None, int, int]] = []
        """Where filter, convolution and norm of each stage stand among the layers; empty: they are of another form."""
        self.stride = 1
        ends = [i for i, layer in enumerate(layers) if isinstance(layer, nn.BatchNorm2d)]
        if not ends or ends[-1] + 1 != len(layers):
            return
        spans = list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))
        if not all(_is_stage(layers[begin : end + 1], first=begin == 0) for begin, end in spans):
            return
        self.stages = [(end - 2 if end - begin == 3 else None, end - 1, end) for begin, end in spans]
        self.stride = cast(nn.Conv2d, layers[1]).stride[0]

    def stage(self, number: int, source: int = 0) -> Convolution:
        """Compute one stage, on one of several inputs."""
        filtered, convolved, normed = self.stages[number]
        depthwise = None if filtered is None else cast(nn.Conv2d, self[filtered])
        convolution = cast(nn.Conv2d, self[convolved])
        return Convolution(
            matrix=convolution.weight,
            norm=cast(nn.BatchNorm2d, self[normed]),
            filter=None if depthwise is None else depthwise.weight,
            bias=convolution.bias,
            dilation=1 if depthwise is None else depthwise.dilation[0],
            source=source,
            last=number + 1 == len(self.stages),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Convolve [n, c, h, w] to [n, outputs, h, w], or half the size."""
        backend = backend_for(inputs) if self.stages and by_batch(norms_of(self)) else None
        if backend is None:
            plain: Tensor = super().forward(inputs)  # type: ignore[no-untyped-call]
            return plain
        term: AnyTerm = Term(inputs)
        for number in range(len(self.stages)):
            assert isinstance(term, Term)  # only the last one is left to whoever uses it
            (term,) = backend.convolutions([term], [self.stage(number)], self.stride if number == 0 else 1)
        return backend.normalized(term)


class Pool(nn.Sequential):
    """3x3 pooling that keeps the size or halves it, with a batch norm behind it or without."""

    def __init__(self, channels: int, stride: int, style: Style, *, average: bool) -> None:
        pool: nn.Module = nn.MaxPool2d(3, stride=stride, padding=1)
        if average:
            pool = nn.AvgPool2d(3, stride=stride, padding=1, count_include_pad=False)
        super().__init__(pool)
        if style.norm_after_pool:
            self.append(batch_norm(channels, style, affine=False))
        self.average, self.stride, self.normed = average, stride, style.norm_after_pool


def relu_conv_norm(
    inputs: int, outputs: int, style: Style, *, kernel: int = 1, stride: int = 1, bias: bool = False
) -> Convolutions:
    """Return ReLU, a convolution of odd kernel that keeps the size (or halves it), and batch norm."""
    return Convolutions(
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=bias),
        batch_norm(outputs, style),
    )


class FactorizedReduce(nn.Module):
    """Half the size without losing pixels: two strided 1x1 convolutions, one of them on the image shifted by one.

    The pixels are picked first and convolved without a stride: the same result, and some torch builds write past the
    end of their memory in the weight gradient of a strided 1x1 convolution in the channels_last layout.
    """

    def __init__(self, inputs: int, outputs: int, style: Style) -> None:
        super().__init__()
        if outputs % 2:
            raise ValueError(f"channels must be even where a skip connection halves the size, but got {outputs}")
        self.relu = nn.ReLU()
        self.even = nn.Conv2d(inputs, outputs // 2, 1, bias=False)
        self.odd = nn.Conv2d(inputs, outputs // 2, 1, bias=False)
        self.norm = batch_norm(outputs, style)

    def forward(self, inputs: Tensor) -> Tensor:
        """Reduce [n, c, h, w] to [n, outputs, ceil(h / 2), ceil(w / 2)]."""
        backend = backend_for(inputs) if by_batch([self.norm]) else None
        if backend is not None:
            (term,) = backend.convolutions([Term(side_by_side(inputs))], [self.stage()], 1)
            return backend.normalized(term)
        even, odd = halves(self.relu(inputs))
        normed: Tensor = self.norm(torch.cat([self.even(even), self.odd(odd)], dim=1))
        return normed

    def stage(self, source: int = 0) -> Convolution:
        """Compute both convolutions as one, on the two images side by side: a matrix with two blocks of zeros."""
        even, odd = self.even.weight, self.odd.weight
        nothing = zeros_beside(even)
        blocks = torch.cat([torch.cat([even, nothing], dim=1), torch.cat([nothing, odd], dim=1)])
        return Convolution(blocks, self.norm, source=source, last=True)


def norms_of(module: nn.Module) -> tuple[nn.BatchNorm2d, ...]:
    """Return all batch norms in a module."""
    return tuple(layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d))


def by_batch(norms: Iterable[nn.BatchNorm2d]) -> bool:
    """Return whether norms use the statistics of the batch, as the fast paths compute them.

    Those that are synchronized over processes have a `forward` of their own.
    """
    return all(
        (norm.training or norm.running_mean is None) and norm.eps == EPSILON and "forward" not in vars(norm)
        for norm in norms
    )


def _is_stage(layers: Sequence[nn.Module], *, first: bool) -> bool:
    """Return whether modules are a stage: ReLU, a depthwise filter or none, convolution, batch norm, of one size."""
    if len(layers) < 3:
        return False
    relu, *convolutions, _ = layers
    if type(relu) is not nn.ReLU or not all(type(layer) is nn.Conv2d for layer in convolutions):
        return False
    *filters, last = cast(list[nn.Conv2d], convolutions)
    if len(filters) > 1 or any(one.groups != one.in_channels or one.bias is not None for one in filters):
        return False
    if last.groups != 1 or last.dilation != (1, 1) or (filters and last.kernel_size != (1, 1)):
        return False
    # The sizes for which there are kernels.
    if filters and (filters[0].out_channels != filters[0].in_channels or filters[0].kernel_size[0] not in (3, 5, 7)):
        return False
    steps = [one.stride for one in (*filters, last)]
    return (
        all(map(_keeps_size, (*filters, last)))
        and steps[1:] == [(1, 1)] * len(filters)
        and (steps[0] == (1, 1) or (first and steps[0] == (2, 2)))
    )


def _keeps_size(layer: nn.Conv2d) -> bool:
    """Return whether a convolution without stride leaves height and width as they are, with zeros around the image."""
    (size, other), (dilation, same) = layer.kernel_size, layer.dilation
    reach = dilation * (size // 2)
    square = size == other and dilation == same and size % 2 == 1
    return square and layer.padding == (reach, reach) and layer.padding_mode == "zeros"


class Zero(nn.Module):
    """The operation `none`: its output is zero."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, inputs: Tensor) -> Tensor:
        """Return zeros in the size that the other operations of the edge give."""
        return torch.zeros_like(inputs[..., :: self.stride, :: self.stride])


class NoiseLayer(nn.Module):
    """The operation `noise`: independent N(0, 1) whatever its input is, and their mean without a generator."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return random numbers of the size that the other operations of the edge give.

        They are float32 whatever the inputs are, and the same on every device.
        """
        like = inputs[..., :: self.stride, :: self.stride]
        if generator is None:
            return torch.zeros_like(like)
        return draw_normal(like.shape, generator, like.device).to(like)
