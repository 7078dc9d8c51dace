"""Whole cells as one native operator, and its derivative."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from smallgroup.kernels.plans import CellTerms
from smallgroup.kernels.terms import EPSILON, check_values, differentiable_once


def compute(plan: CellTerms, inputs: Sequence[Tensor], weights: Tensor) -> list[Tensor]:
    """Return the nodes of a cell, computed by one native operator."""
    check_values(inputs[0])
    matrices = [layer.weight for layer in plan.layers]
    biases = [layer.bias for layer in plan.layers if layer.bias is not None]
    found: tuple[Tensor, ...] = _Cell.apply(plan, weights.to(inputs[0]), *inputs, *matrices, *biases)  # type: ignore[no-untyped-call]
    return list(found)


class _Cell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: CellTerms, weights: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401
        xs = [_dense(x) for x in tensors[: plan.inputs]]
        matrices = tensors[plan.inputs : plan.inputs + len(plan.layers)]
        nodes, *kept = torch.ops.smallgroup.cell_forward(xs, matrices, weights, plan.numbers, plan.nodes, EPSILON)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(weights, *xs, *matrices, *nodes, *(each for part in kept for each in part))
            ctx.plan = plan
            ctx.set_materialize_grads(False)
        return tuple(nodes)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        plan: CellTerms = ctx.plan
        states, layers = plan.inputs + plan.nodes, len(plan.layers)
        weights, *saved = ctx.saved_tensors
        needed, rest = ctx.needs_input_grad[2:], iter(saved)
        counts = (plan.inputs, layers, plan.nodes, states, states, states)
        xs, matrices, nodes, results, averages, statistics = (list(islice(rest, count)) for count in counts)
        nothing = weights.new_empty(0)
        given = [nothing if g is None else _dense(g) for g in gradients]
        wanted, of_weights = [int(asked) for asked in needed[: plan.inputs]], any(needed[plan.inputs :])
        dxs, dmatrices, dweights = torch.ops.smallgroup.cell_backward(
            given, xs, nodes, results, averages, statistics, matrices, weights, plan.numbers, wanted, of_weights
        )
        of_inputs = [dx if asked else None for dx, asked in zip(dxs, wanted, strict=True)]
        biases = len(needed) - plan.inputs - layers
        if not of_weights:
            return None, dweights, *of_inputs, *([None] * (layers + biases))
        # A bias has no effect, because a batch norm follows.
        return None, dweights, *of_inputs, *dmatrices, *weights.new_zeros(biases, xs[0].shape[1]).unbind()


def _dense(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
