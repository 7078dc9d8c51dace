"""Stem, reductions and head of a supernet with residual reductions, each as one native operator with its derivative."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from smallgroup.kernels.averages import move_averages
from smallgroup.kernels.terms import EPSILON, Convolution, check_values, differentiable_once

_MOST_CHANNELS = 128
"""Of the result of a reduction; of more, torch's convolutions are faster."""


class NativeBlocks:
    """The blocks as operators of our own."""

    def stem(self, x: Tensor, layer: nn.Conv2d, norm: nn.BatchNorm2d) -> Tensor:
        """Compute it with one operator."""
        check_values(x)
        y: Tensor = _Stem.apply(x, layer.weight, norm.weight, norm.bias)  # type: ignore[no-untyped-call]
        return y

    def reduction(self, x: Tensor, body: Sequence[Convolution], shortcut: nn.Conv2d) -> Tensor | None:
        """Compute it with one operator, if there are not very many channels."""
        if shortcut.out_channels > _MOST_CHANNELS:
            return None
        parameters = [p for layer in body for p in (layer.matrix, layer.norm.weight, layer.norm.bias)]
        y: Tensor = _Reduction.apply(body, x, *parameters, shortcut.weight)  # type: ignore[no-untyped-call]
        return y

    def head(self, x: Tensor, norm: nn.BatchNorm2d) -> Tensor:
        """Compute it with one operator."""
        check_values(x)
        y: Tensor = _Head.apply(x, norm.weight, norm.bias)  # type: ignore[no-untyped-call]
        return y


NATIVE_BLOCKS = NativeBlocks()


class _Stem(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, scale: Tensor, shift: Tensor) -> Tensor:  # noqa: ANN401
        x = _dense(x)
        out: Tensor
        out, y, statistics = torch.ops.smallgroup.stem_forward(x, matrix, scale, shift, EPSILON)
        ctx.save_for_backward(x, y, statistics, matrix, scale, shift)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        wanted = ctx.needs_input_grad[0]
        dx, *found = torch.ops.smallgroup.stem_backward(_dense(gradient), *ctx.saved_tensors, wanted)
        return dx if wanted else None, *found


class _Head(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:  # noqa: ANN401
        x = _dense(x)
        out: Tensor
        out, statistics = torch.ops.smallgroup.head_forward(x, scale, shift, EPSILON)
        ctx.save_for_backward(x, statistics, scale, shift)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401
        found: tuple[Tensor, ...] = torch.ops.smallgroup.head_backward(gradient.contiguous(), *ctx.saved_tensors)
        return found


class _Reduction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, body: Sequence[Convolution], x: Tensor, *parameters: Tensor) -> Tensor:  # noqa: ANN401
        x = _dense(x)
        out: Tensor
        out, *kept = torch.ops.smallgroup.reduction_forward(x, parameters, EPSILON)
        move_averages(body, kept[1::2], out)
        ctx.save_for_backward(x, *parameters, *kept)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, *saved = ctx.saved_tensors
        _, wanted, *of_parameters = ctx.needs_input_grad
        of_weights = any(of_parameters)
        dx, found = torch.ops.smallgroup.reduction_backward(
            _dense(gradient), x, saved[:-4], saved[-4:], wanted, of_weights
        )
        return None, dx if wanted else None, *(found if of_weights else [None] * len(found))


def _dense(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
