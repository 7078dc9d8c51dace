"""What moves the weights of a network in training, and its state as named tensors."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from smallgroup.group.fused_sgd import FusedSGD, laid_out_like
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.runtime.checkpoints import take_up

SAVED_AS = {"momentum_buffer": "momentum", "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq", "step": "count"}
"""What optimizers keep for each weight, and the name it has in a checkpoint."""


class FusedAdamW(AdamW):
    """Torch's fused AdamW for gradients of any memory layout: its kernel reads them in that of the weights."""

    def __init__(self, weights: Sequence[Tensor], *, lr: float, weight_decay: float) -> None:
        super().__init__(list(weights), lr=lr, weight_decay=weight_decay, fused=True)
        # Else a scaler of gradients would leave it to the kernel to undo the scale, and to leave out steps.
        self._step_supports_amp_scaling = False

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Take a step as AdamW does; the loss is not evaluated again."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.grad = laid_out_like(weight, weight.grad)
        super().step()


AnyOptimizer = FusedSGD | FusedAdamW


def make_optimizer(config: TrainingConfig, weights: Sequence[Tensor]) -> AnyOptimizer:
    """Return the optimizer that a config names."""
    if config.optimizer == "adamw":
        return FusedAdamW(weights, lr=config.lr, weight_decay=config.weight_decay)
    return FusedSGD(weights, lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)


def optimizer_state(optimizer: AnyOptimizer, named: Iterable[tuple[str, nn.Parameter]]) -> dict[str, Tensor]:
    """Return what the optimizer keeps for each weight, by the weight's name."""
    return {
        f"{saved}.{name}": optimizer.state[weight][key]
        for name, weight in named
        for key, saved in SAVED_AS.items()
        if optimizer.state.get(weight, {}).get(key) is not None
    }


def load_optimizer_state(
    optimizer: AnyOptimizer, named: Iterable[tuple[str, nn.Parameter]], tensors: Mapping[str, Tensor]
) -> None:
    """Take up what `optimizer_state` gave, in the memory layout of the weights."""
    for name, weight in named:
        kept: dict[str, Tensor] = {}
        for key, saved in SAVED_AS.items():
            value = tensors.get(f"{saved}.{name}")
            if value is not None:
                kept[key] = torch.zeros(()) if key == "step" else torch.empty_like(weight, requires_grad=False)
                take_up(kept[key], value, f"{saved}.{name}")
        if kept:
            optimizer.state[weight] = kept
