"""SGD with momentum and decay in one pass over the weights, for networks of very many small ones."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import SGD
from torch.optim.sgd import sgd

from smallgroup.runtime.without_compiler import compiler_left_out


class FusedSGD(SGD):
    """Torch's fused SGD, made safe for any gradients that an optimizer may be given.

    The kernel walks through the memory of weights, gradients and buffers side by side, so all three are brought to the
    layout of the weights. And it wants a buffer for each of them or for none, but weights may take part for the first
    time in any step: they begin with a buffer of zeros, to which the first gradient is added as it is.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        *,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        # Not `fused=True`: torch would refuse devices that it does not list, and a scaler of gradients would leave it
        # to the kernel to undo the scale and to leave out steps.
        with compiler_left_out():
            super().__init__(list(weights), lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
        for weight in weights:
            reach = sum((n - 1) * s for n, s in zip(weight.shape, weight.stride(), strict=True)) + 1
            if weight.numel() and reach != weight.numel():
                raise ValueError(
                    f"fused steps need weights without gaps, but one of {weight.numel()} numbers reaches over {reach}"
                )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Take a step as SGD does; the loss is not evaluated again."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            sgd(
                weights,
                [laid_out_like(weight, weight.grad) for weight in weights],
                [self._buffer(weight) for weight in weights] if group["momentum"] else [None] * len(weights),
                has_sparse_grad=False,
                foreach=False,
                fused=True,
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=0.0,
                nesterov=group["nesterov"],
                maximize=False,
            )

    def _buffer(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        known = state.get("momentum_buffer")
        buffer = torch.zeros_like(weight) if known is None else laid_out_like(weight, known)
        if buffer is not known:
            state["momentum_buffer"] = buffer
        return buffer


def laid_out_like(weight: Tensor, tensor: Tensor) -> Tensor:
    """Return a tensor whose elements lie in memory in the order of the weight's: the tensor itself, if they do."""
    if (tensor.is_contiguous() and weight.is_contiguous()) or tensor.stride() == weight.stride():
        return tensor
    return torch.empty_like(weight).copy_(tensor)
